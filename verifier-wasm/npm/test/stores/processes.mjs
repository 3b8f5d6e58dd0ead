// Several processes share one store: of all their calls one wins.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { same } from "../runtimes/suite/expect.mjs";
import { freshLinks } from "./links.mjs";

const PROGRAM = fileURLToPath(new URL("process.mjs", import.meta.url));
const PROCESSES = 4;

export function* acrossProcesses(folder, kind, server) {
  yield [
    `one of ${PROCESSES} processes runs the callback, and together they get five verdicts on codes`,
    async () => {
      // A moment at which all of them have started.
      const task = JSON.stringify({
        folder,
        kind,
        server,
        links: freshLinks(),
        at: Date.now() + 3000,
      });
      const answers = await Promise.all(
        Array.from({ length: PROCESSES }, async () => {
          const running = promisify(execFile)(process.execPath, [PROGRAM], { timeout: 240_000 });
          running.child.stdin.end(task);
          return JSON.parse((await running).stdout);
        }),
      );
      const sum = (name) => answers.reduce((total, answer) => total + answer[name], 0);
      same(sum("ran"), 1, "runs of the callback");
      same(sum("verdicts"), 5, "verdicts");
      same(answers.map(({ other }) => other).join(""), "", "other answers");
    },
  ];
}

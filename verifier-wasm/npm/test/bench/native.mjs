// The Rust core in a process of its own, which measures itself,
// so that no time of the pipe is counted.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const WORKSPACE = fileURLToPath(new URL("../../../..", import.meta.url));
const ARGUMENTS = [
  "bench",
  "--quiet",
  "--package=mailroom-verifier-core",
  "--bench=verify",
  "--",
  "--rounds",
];

/**
 * A contestant that does its rounds elsewhere; the key goes through a pipe,
 * not through the arguments.
 */
export function native(key, tokens) {
  const child = spawn("cargo", ARGUMENTS, { cwd: WORKSPACE, stdio: ["pipe", "pipe", "inherit"] });
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  child.stdin.write([key.toString("hex"), ...tokens, "", ""].join("\n"));
  return {
    async round(verifications) {
      child.stdin.write(`${verifications}\n`);
      const { value, done } = await answers.next();
      if (done) {
        throw new Error("the native program ended early");
      }
      const [nanoseconds, accepted] = value.split(" ").map(Number);
      return { nanoseconds, accepted };
    },
    end: () => child.stdin.end(),
  };
}

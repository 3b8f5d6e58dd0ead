// What importing the package and verifying a first token add to the start of Node:
// `node start.mjs --tarball=FILE --folder=FOLDER [--json]`. FOLDER is made anew.
//
// Whole processes, in turns with one that runs an empty script, and with one that imports a package
// of as many files and bytes that does nothing: what Node takes to find, read and link them is in
// every import. Differences are those within a round, of which the median is told: what disturbs a
// busy machine lasts longer than a round.

import { spawnSync } from "node:child_process";
import { createHmac, randomBytes } from "node:crypto";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { PACKAGE, write } from "../runtimes/consumer.mjs";
import { prepare } from "./command_line.mjs";
import { median } from "./median.mjs";

const ROUNDS = 101;

const { consumer, json } = prepare();

const key = randomBytes(32);
const secret = randomBytes(32);
const token = Buffer.concat([
  secret,
  createHmac("sha256", key).update("/activate").update(secret).digest(),
]);

write(consumer, "empty.mjs", "");
write(
  consumer,
  "first.mjs",
  `import { createVerifier } from "mailroom-verifier";
const verifier = createVerifier({ keys: process.env.MAILROOM_SECRET_KEY });
verifier.verify(${JSON.stringify(token.toString("base64url"))}, { action: "activate" });
`,
);

imitate(["dist/main.js", "dist/errors.js"]);
write(consumer, "trivial.mjs", 'import { nothing } from "trivial-package";\n');

const SCRIPTS = ["empty.mjs", "trivial.mjs", "first.mjs"];
const rounds = [];
for (let number = -5; number < ROUNDS; number += 1) {
  const times = SCRIPTS.map(milliseconds);
  if (number >= 0) {
    rounds.push(times);
  }
}

const of = (value) => round(median(rounds.map(value)));
const ms = {
  empty: of(([empty]) => empty),
  trivial_package: of(([, trivial]) => trivial),
  first_verification: of(([, , first]) => first),
};
const over_empty = of(([empty, , first]) => first - empty);
const trivial_over_empty = of(([empty, trivial]) => trivial - empty);
if (json) {
  console.log(JSON.stringify({ ms, over_empty, trivial_over_empty }));
} else {
  console.log(`a new process, median of ${ROUNDS} on Node ${process.versions.node}`);
  const line = (what, time, over) => {
    const more = over === undefined ? "" : `   ${over.toFixed(2)} more`;
    console.log(`  ${what.padEnd(44)} ${time.toFixed(2).padStart(7)} ms${more}`);
  };
  line("empty script", ms.empty);
  line("import of a package that does nothing", ms.trivial_package, trivial_over_empty);
  line("import and first verification", ms.first_verification, over_empty);
}

/** Makes a package of as many files as these and as long, of which the first imports the others. */
function imitate(files) {
  const folder = "node_modules/trivial-package";
  mkdirSync(join(consumer, folder), { recursive: true });
  const exports = { ".": { types: "./0.d.ts", workerd: "./0.js", default: "./0.js" } };
  write(
    consumer,
    `${folder}/package.json`,
    JSON.stringify({ name: "trivial-package", type: "module", exports }),
  );
  files.forEach((file, index) => {
    const { length } = readFileSync(join(consumer, "node_modules", PACKAGE, file));
    const others =
      index === 0
        ? files
            .slice(1)
            .map((_, other) => `import "./${other + 1}.js";\n`)
            .join("")
        : "";
    write(
      consumer,
      `${folder}/${index}.js`,
      `${others}export const nothing = 0;\n/*${"-".repeat(length)}*/\n`,
    );
  });
}

function milliseconds(script) {
  const started = process.hrtime.bigint();
  const { status, stderr } = spawnSync(process.execPath, [join(consumer, script)], {
    cwd: consumer,
    env: { ...process.env, MAILROOM_SECRET_KEY: key.toString("hex") },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const elapsed = Number(process.hrtime.bigint() - started) / 1e6;
  if (status !== 0) {
    throw new Error(`${script} failed: ${stderr}`);
  }
  return elapsed;
}

function round(value) {
  return Math.round(value * 100) / 100;
}

// Makes jsr.json, and `dist/jsr`, which it publishes: the same modules, each naming its
// declarations, and declarations that name files that exist. JSR maps no `.js` to a `.d.ts`, and
// knows no conditions.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { bundleOf, declaredIn, ENTRIES_OF_JSR, exportsOfJsr } from "./entries.mjs";

const SOURCE = "dist";
const TARGET = "dist/jsr";

/** What is published beside `dist/jsr`. */
const DOCUMENTS = ["errors.md", "LICENSE", "MIGRATING.md", "README.md", "REFERENCE.md"];

/** @param {readonly string[]} declarations the files of `dist` that declare what is public */
export function buildForJsr(declarations) {
  rmSync(TARGET, { recursive: true, force: true });
  mkdirSync(TARGET);
  for (const entry of ENTRIES_OF_JSR) {
    const name = bundleOf(entry);
    const script = readFileSync(join(SOURCE, name), "utf8");
    writeFileSync(join(TARGET, name), `/* @ts-self-types="./${declaredIn(entry)}" */\n${script}`);
  }
  for (const file of declarations) {
    const target = join(TARGET, file);
    mkdirSync(dirname(target), { recursive: true });
    const declared = readFileSync(join(SOURCE, file), "utf8");
    writeFileSync(target, declared.replaceAll(/(from|import\() ?"(\.[^"]+)\.js"/g, '$1 "$2.d.ts"'));
  }
  const { version, license } = JSON.parse(readFileSync("package.json", "utf8"));
  const config = {
    name: "@mailroom/verifier",
    version,
    license,
    exports: exportsOfJsr(),
    // Git ignores what is built, and JSR what Git ignores.
    publish: { include: [...DOCUMENTS, TARGET], exclude: ["!LICENSE", "!dist"] },
  };
  writeFileSync("jsr.json", `${JSON.stringify(config, undefined, 2)}\n`);
}

// The public types, as a strict project sees them that has installed the package.

import assert from "node:assert/strict";
import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { consumer, run, sources } from "./consumer.mjs";

const OLDEST = "typescript-5.4";
const COMPILERS = {
  "TypeScript 7": "typescript-7",
  "TypeScript 6": "typescript",
  "TypeScript 5.4": OLDEST,
};
const MAIN = "main.test-d.ts";
const SLIM = "slim.test-d.ts";
const GUARD = "guard.test-d.ts";
const STRICT = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  // The declarations of the package are checked as well.
  skipLibCheck: false,
  noEmit: true,
  target: "es2022",
  types: [],
};
const LENIENT = { strict: true, skipLibCheck: false, noEmit: true, target: "es2022", types: [] };
const PROJECTS = {
  "Node without any types but those of the language": [
    [MAIN, GUARD],
    { module: "nodenext", lib: ["es2022"] },
  ],
  "Node with the types of the web": [[MAIN, GUARD, SLIM], { module: "nodenext", lib: ["es2022", "dom"] }],
  "a bundler": [
    [MAIN, GUARD, SLIM],
    { module: "esnext", moduleResolution: "bundler", lib: ["es2022", "dom"] },
  ],
};
/** Settings under which a program that is right compiles too, though fewer mistakes are found in it. */
const LOOSE = {
  "node16, not strict, without the web": { module: "node16", lib: ["es2022"], strict: false },
  "nodenext, not strict, es2020": { module: "nodenext", lib: ["es2020"], strict: false, target: "es2020" },
  "bundler, strict, es2020 without the web": {
    ...{ module: "esnext", moduleResolution: "bundler", lib: ["es2020"], target: "es2020" },
  },
  "bundler, not strict, as Next.js writes it": {
    ...{
      module: "esnext",
      moduleResolution: "bundler",
      lib: ["dom", "dom.iterable", "esnext"],
      strict: false,
    },
    ...{ target: "es2017", isolatedModules: true },
  },
};

for (const name of [MAIN, GUARD, SLIM, "loose.ts"])
  copyFileSync(new URL(`types/${name}`, import.meta.url), join(consumer, name));

async function compiles(folder, config, compilerOptions, files) {
  writeFileSync(join(consumer, config), JSON.stringify({ compilerOptions, files }));
  const program = join(sources, "node_modules", folder, "bin/tsc");
  const { status, stdout, stderr } = await run(process.execPath, [program, "--project", config]);
  assert.equal(stdout + stderr, "");
  assert.equal(status, 0);
}

for (const [compiler, folder] of Object.entries(COMPILERS)) {
  // What they expect of `Uint8Array` TypeScript before 5.7 has no words for.
  for (const [index, [project, [files, options]]] of Object.entries(
    OLDEST === folder ? {} : PROJECTS,
  ).entries()) {
    test(`${compiler}, ${project}`, () =>
      compiles(folder, `tsconfig.${folder}.${index}.json`, { ...STRICT, ...options }, files));
  }
  for (const [index, [project, options]] of Object.entries(LOOSE).entries()) {
    test(`${compiler}, ${project}`, () =>
      compiles(folder, `tsconfig.${folder}.loose${index}.json`, { ...LENIENT, ...options }, ["loose.ts"]));
  }
}

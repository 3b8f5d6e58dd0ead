// The public types, as a strict project sees them that has installed the package.

import assert from "node:assert/strict";
import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { consumer, run, sources } from "./consumer.mjs";

const COMPILERS = { "TypeScript 7": "typescript", "TypeScript 5.7": "typescript-5.7" };
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

for (const name of [MAIN, GUARD, SLIM])
  copyFileSync(new URL(`types/${name}`, import.meta.url), join(consumer, name));

for (const [compiler, folder] of Object.entries(COMPILERS)) {
  for (const [project, [files, options]] of Object.entries(PROJECTS)) {
    test(`${compiler}, ${project}`, async () => {
      const config = join(consumer, `tsconfig.${folder}.${options.module}.${files.length}.json`);
      writeFileSync(config, JSON.stringify({ compilerOptions: { ...STRICT, ...options }, files }));
      const program = join(sources, "node_modules", folder, "bin/tsc");
      const { status, stdout, stderr } = await run(process.execPath, [program, "--project", config]);
      assert.equal(stdout + stderr, "");
      assert.equal(status, 0);
    });
  }
}

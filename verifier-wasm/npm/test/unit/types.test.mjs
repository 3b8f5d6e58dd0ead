// The public types, as a strict project sees them that has installed the package.

import assert from "node:assert/strict";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { files } from "../readme/document.mjs";
import { reachable } from "../../scripts/declarations.mjs";
import { consumer, installed, run, sources } from "./consumer.mjs";

const OLDEST = "typescript-5.4";
const COMPILERS = {
  "TypeScript 7": "typescript-7",
  "TypeScript 6": "typescript",
  "TypeScript 5.4": OLDEST,
};
const MAIN = "main.test-d.ts";
const SLIM = "slim.test-d.ts";
const GUARD = "guard.test-d.ts";
const HANDLER = "handler.test-d.ts";
const WEB = "web.test-d.ts";
const DATABASE = "database.test-d.ts";
const TESTING = "testing.test-d.ts";
// The declarations of the package are checked as well, those of the language and the web not:
// each compiler would need more time for them than for all else.
const CHECKED = { skipLibCheck: false, skipDefaultLibCheck: true };
const STRICT = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  ...CHECKED,
  noEmit: true,
  target: "es2022",
  types: [],
};
const LENIENT = { strict: true, ...CHECKED, noEmit: true, target: "es2022", types: [] };
const PROJECTS = {
  "Node without any types but those of the language": [
    [MAIN, GUARD, WEB],
    { module: "nodenext", lib: ["es2022"] },
  ],
  "Node with the types of the web": [
    [MAIN, GUARD, SLIM, HANDLER, WEB, DATABASE, TESTING],
    { module: "nodenext", lib: ["es2022", "dom"] },
  ],
  "a bundler": [
    [MAIN, GUARD, SLIM, HANDLER, WEB, DATABASE, TESTING],
    { module: "esnext", moduleResolution: "bundler", lib: ["es2022", "dom"] },
  ],
};
/**
 * Settings under which a program that is right compiles too, though fewer mistakes are found in it.
 */
const LOOSE = {
  "node16, not strict, without the web": { module: "node16", lib: ["es2022"], strict: false },
  "nodenext, not strict, es2020": {
    module: "nodenext",
    lib: ["es2020"],
    strict: false,
    target: "es2020",
  },
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

for (const name of [MAIN, GUARD, SLIM, HANDLER, WEB, DATABASE, TESTING, "loose.ts"])
  copyFileSync(new URL(`../types/${name}`, import.meta.url), join(consumer, name));

// The same as CommonJS, for which the package declares its types apart.
for (const name of [MAIN, "loose.ts"])
  copyFileSync(
    new URL(`../types/${name}`, import.meta.url),
    join(consumer, name.replace(/ts$/, "cts")),
  );

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
      compiles(folder, `tsconfig.${folder}.loose${index}.json`, { ...LENIENT, ...options }, [
        "loose.ts",
      ]));
  }
  for (const module of ["node16", "nodenext"]) {
    const [options, file] =
      folder === OLDEST ? [LENIENT, "loose.cts"] : [STRICT, MAIN.replace(/ts$/, "cts")];
    test(`${compiler}, CommonJS, ${module}`, () =>
      compiles(
        folder,
        `tsconfig.${folder}.${module}.json`,
        { ...options, module, lib: ["es2022"] },
        [file],
      ));
  }
}

test("TypeScript 5.4, CommonJS, the resolution of before package exports", () =>
  compiles(
    OLDEST,
    "tsconfig.node10.json",
    { ...LENIENT, module: "commonjs", moduleResolution: "node10", lib: ["es2022"] },
    ["loose.ts"],
  ));

/** What an editor shows as the use of a function, in a program that has what such a program has. */
const AROUND = `
import { defineActions } from "mailroom-verifier/actions";
import { checkStore } from "mailroom-verifier/conformance";
import { createMailroom, FURTHER_ACTIONS, http, pg, redeemWith } from "mailroom-verifier/database";
import { bindBrowser, createLinkHandler, toNodeListener } from "mailroom-verifier/handler";
import * as publicEntry from "mailroom-verifier/public";
import { instantiate, instantiatePublic } from "mailroom-verifier/slim";
import { createTestLinks, inbox } from "mailroom-verifier/testing";
import * as webEntry from "mailroom-verifier/web";
import * as entry from "mailroom-verifier";
import { errorOf, explain, VerifierError } from "mailroom-verifier/errors";
declare const process: { env: Record<string, string | undefined> };
declare const verifier: entry.Verifier, guard: entry.Guard, store: entry.TokenStore;
declare const small: entry.TokenStore, unreachable: entry.TokenStore;
declare const token: string, code: string, password: string, url: URL, form: FormData;
declare const cookie: string | undefined;
declare const origin: { recover(secret: Uint8Array, password: string): Promise<void> };
declare const handler: ReturnType<typeof createLinkHandler>, request: Request;
declare const database: { activate(secret: Uint8Array): Promise<"ok" | "used"> };
declare const app: { all(path: string, listener: (request: never, response: never) => void): void };
interface Client { query(text: string, values: unknown[]): Promise<{ rows: unknown[] }> }
interface Pool extends Client { connect(): Promise<Client & { release(): void }> }
declare const pool: Pool, client: Client & { release(): void }, keys: string;
declare const mailroom: import("mailroom-verifier/database").Mailroom<Client>;
declare const recipientEmail: string, subjectId: string;
declare const page: { goto(url: string): Promise<unknown> };
declare function readFile(path: string): Promise<Uint8Array<ArrayBuffer>>;
declare function fileURLToPath(url: string): string;
`;

test("the examples of the documentation comments compile", async () => {
  // Those of stores need a client each, and those of the handler's options are parts of one.
  const declarations = reachable(join(installed, "dist")).filter(
    (name) => !/^(?:entries\/(?:stores|handler)|handler)\//.test(name),
  );
  const examples = declarations.flatMap((name) => {
    const text = readFileSync(join(installed, "dist", name), "utf8");
    const found = [...text.matchAll(/@example\n((?: *\* [^@\n].*\n)+)/g)];
    const isOfWeb = /^(?:entries\/web\.|web\/)/.test(name);
    const of = isOfWeb ? "webEntry" : name.includes("/public") ? "publicEntry" : "entry";
    return found.map(([, lines]) => ({ of, text: lines.replace(/^ *\* /gm, "") }));
  });
  assert.ok(examples.length >= 12, `${examples.length} examples`);
  const programs = examples.map(({ of, text }) => {
    const others = of === "webEntry" ? ["createSharedVerifier"] : ["createGuard"];
    const names = ["createVerifier", "bindingOf", ...others]
      .map((name) => `${name} = ${of}.${name}`)
      .join(", ");
    const own = `const ${names}, { createMemoryStore } = entry;`;
    return `export async () => { ${own} { return (async () => {\n${text}return; })(); } };\n`;
  });
  const source = programs.map((program, at) =>
    program.replace("export", `export const example${at} =`),
  );
  writeFileSync(join(consumer, "examples.ts"), AROUND + source.join(""));
  const options = { ...STRICT, module: "nodenext", lib: ["es2022", "dom", "dom.iterable"] };
  await compiles("typescript-7", "tsconfig.examples.json", options, ["examples.ts"]);
});

test("the TypeScript programs of README and REFERENCE compile in a strict project", async () => {
  const pages = ["README.md", "REFERENCE.md"].map((name) =>
    readFileSync(join(installed, name), "utf8"),
  );
  const shown = files(pages.join("\n"));
  // Those in folders are of an application of Next.js, which that builds.
  const programs = Object.keys(shown).filter((name) => /^\w+\.ts$/.test(name));
  assert.equal(programs.toSorted().join(" "), "accounts.ts ask.ts invite.ts server.ts");
  for (const name of programs) writeFileSync(join(consumer, name), shown[name]);
  const node = {
    types: ["node"],
    typeRoots: [join(sources, "node_modules/@types")],
    skipLibCheck: true,
    allowImportingTsExtensions: true,
    paths: { pg: [join(sources, "test/node_modules/@types/pg/index.d.ts")] },
  };
  for (const folder of Object.values(COMPILERS)) {
    const options = { ...STRICT, ...node, module: "nodenext", lib: ["es2022"] };
    await compiles(folder, `tsconfig.${folder}.readme.json`, options, programs);
  }
});

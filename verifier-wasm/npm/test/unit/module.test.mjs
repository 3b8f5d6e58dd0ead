// What is in the WebAssembly module, and what the package weighs.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { constants, gzipSync } from "node:zlib";

import { build } from "esbuild";

import { consumer, installed, repository, tarball } from "./consumer.mjs";

const bytes = readFileSync(join(installed, "dist/verifier.wasm"));
const module = new WebAssembly.Module(bytes);

test("the module imports nothing, so that it needs no script", () => {
  assert.deepEqual(WebAssembly.Module.imports(module), []);
});

test("the module exports what the package calls, and nothing that allocates", () => {
  const names = WebAssembly.Module.exports(module).map(({ name }) => name);
  assert.deepEqual(names.toSorted(), [
    "__stack_pointer",
    "bind",
    "buffers",
    "identify",
    "load_actions",
    "load_key",
    "memory",
    "prepare_key",
    "verify",
    "verify_link",
  ]);
});

test("the module has no text of a panic, no formatting machinery, no path of a source file", () => {
  const texts = bytes.toString("latin1").match(/[\x20-\x7e]{4,}/g);
  // The one long table of text that formatting brings is that of all numbers below 100.
  const ofPanics = /panic|called `|unwrap|overflow|out of (?:range|bounds)|index|slice/;
  const ofFormatting = /0001020304|alloc|\.rs|rustc|src\//;
  assert.deepEqual(
    texts.filter((text) => ofPanics.test(text) || ofFormatting.test(text)),
    [],
  );
  assert.ok(
    texts.some((text) => text.includes("mailroom/consumed")),
    "the texts of the module were not found",
  );
});

for (const kind of ["shared", "public"]) {
  test(`no function of the formatting machinery is linked into the module of ${kind} keys`, () => {
    // The module before wasm-opt strips its names; the build leaves it beside the tarball.
    const named = readFileSync(join(dirname(tarball), "bindgen", kind, "verifier_bg.wasm"));
    const [names] = WebAssembly.Module.customSections(new WebAssembly.Module(named), "name");
    const text = Buffer.from(names).toString("latin1");
    assert.match(text, /mailroom_verifier_core/, "the names were not found");
    assert.doesNotMatch(text, /core(?:\[[0-9a-f]+\])?::fmt/);
  });
}

test("an instance serves one copy of the package, and no other can replace its keys", async () => {
  const slim = pathToFileURL(join(installed, "dist/slim.js")).href;
  const [one, other] = await Promise.all([import(slim), import(`${slim}?another-copy`)]);
  const instance = new WebAssembly.Instance(module);
  one.instantiate(instance);
  one.instantiate(instance);
  assert.throws(() => other.instantiate(instance), {
    reason: "ERR_INVALID_ARGUMENT",
    message: /in use already/,
  });
  other.instantiate(new WebAssembly.Instance(module));
});

test("the module has one page of memory, and nothing that grows it", () => {
  const { exports } = new WebAssembly.Instance(module);
  assert.equal(exports.memory.buffer.byteLength, 65_536);
});

for (const [file, most] of [
  ["verifier.wasm", 10_500],
  ["public.wasm", 17_200],
]) {
  test(`${file} has at most ${most} bytes and imports nothing`, () => {
    const content = readFileSync(join(installed, "dist", file));
    assert.ok(content.length <= most, `${content.length} bytes`);
    assert.deepEqual(WebAssembly.Module.imports(new WebAssembly.Module(content)), []);
  });
}

/**
 * What a program imports, the most bytes of what it starts with, once it is bundled, and what the
 * README calls it, in kB.
 */
const SIZES = [
  ['export { createVerifier } from "mailroom-verifier";', 10_900],
  ['export * from "mailroom-verifier";', 15_200],
  ['export { createVerifier } from "mailroom-verifier/public";', 15_100],
  ['export * from "mailroom-verifier/public";', 18_100],
  ['export { createVerifier } from "mailroom-verifier/web";', 4_600],
  ['export { createSharedVerifier } from "mailroom-verifier/web";', 4_500],
  ['export * from "mailroom-verifier/web";', 5_500],
  [
    'export { createMemoryStore, createVerifier } from "mailroom-verifier"; ' +
      'export { createLinkHandler } from "mailroom-verifier/handler";',
    35_250,
  ],
  [
    'export { createMemoryStore, createVerifier } from "mailroom-verifier"; ' +
      'export { createLinkHandler } from "mailroom-verifier/handler/english";',
    34_900,
  ],
  ['export * from "mailroom-verifier/handler";', 25_150],
  ['export * from "mailroom-verifier/database";', 7_800],
  ['export * from "mailroom-verifier/stores/redis";', 3_150],
  ['export * from "mailroom-verifier/stores/postgres";', 3_450],
  ['export * from "mailroom-verifier/stores/durable-object";', 2_600],
  ['export * from "mailroom-verifier/stores/upstash";', 3_350],
  ['export * from "mailroom-verifier/stores/d1";', 2_950],
  ['export * from "mailroom-verifier/stores/deno-kv";', 2_550],
  ['export * from "mailroom-verifier/stores/dynamodb";', 3_150],
];

/** The files that a program starts with, bundled by what splits off what is loaded late. */
async function startOf(contents) {
  const { metafile, outputFiles } = await build({
    stdin: { contents, resolveDir: consumer },
    bundle: true,
    minify: true,
    splitting: true,
    write: false,
    metafile: true,
    format: "esm",
    platform: "browser",
    absWorkingDir: consumer,
    outdir: consumer,
    logLevel: "error",
  });
  const started = new Set();
  const waiting = ["stdin.js"];
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    if (started.has(name)) continue;
    started.add(name);
    const { imports } = metafile.outputs[name];
    waiting.push(
      ...imports.filter(({ kind }) => kind === "import-statement").map(({ path }) => path),
    );
  }
  return outputFiles.filter(({ path }) => started.has(relative(consumer, path)));
}

for (const [imported, most] of SIZES) {
  const what = imported.replaceAll(/export | from|;(?= export)|;$/g, "").replaceAll('"', "");
  test(`${what} has at most ${most} bytes, minified and gzipped`, async () => {
    const length = (await startOf(imported)).reduce(
      (sum, { contents }) =>
        sum + gzipSync(contents, { level: constants.Z_BEST_COMPRESSION }).length,
      0,
    );
    assert.ok(length <= most, `${length} bytes`);
  });
}

test("the reference and the READMEs show the sizes that builds are held to", () => {
  const [reference, readme] = ["REFERENCE.md", "README.md"].map((name) =>
    readFileSync(join(installed, name), "utf8"),
  );
  const shown = [...reference.matchAll(/^\| `(export .+)` \| ([\d.]+) \|$/gm)];
  const held = new Map(SIZES);
  assert.ok(shown.length >= 8);
  for (const [, imported, kilobytes] of shown) {
    assert.equal(Number(kilobytes), (held.get(imported) ?? 0) / 1000, imported);
  }
  const first = readFileSync(join(repository, "README.md"), "utf8");
  const named = [
    ...readme.matchAll(/ ([\d.]+) kB/g),
    ...first.matchAll(/ ([\d.]+) kB of Java/g),
  ].map(([, kilobytes]) => kilobytes);
  const all = shown.map(([, , kilobytes]) => kilobytes);
  assert.equal(named.length, 4);
  assert.deepEqual(
    named.filter((kilobytes) => !all.includes(kilobytes)),
    [],
  );
});

test("public.wasm has at most 9,000 bytes, gzipped", () => {
  const content = readFileSync(join(installed, "dist", "public.wasm"));
  const { length } = gzipSync(content, { level: constants.Z_BEST_COMPRESSION });
  assert.ok(length <= 9_000, `${length} bytes`);
});

test("whoever imports only the errors gets no module with them", async () => {
  const contents =
    'import "mailroom-verifier"; export { VerificationError } from "mailroom-verifier/errors";';
  const options = {
    stdin: { contents, resolveDir: consumer },
    bundle: true,
    minify: true,
    write: false,
  };
  const { outputFiles } = await build({ ...options, format: "esm", logLevel: "error" });
  assert.ok(outputFiles[0].contents.length < 2_000);
});

// `npm run build`: builds everything that the package contains.
// The same sources give the same bytes.
//
// The modules; then the TypeScript, which tsc checks and declares and esbuild bundles;
// then the reference.

import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

import { buildForJsr } from "./build_jsr.mjs";
import { buildModules } from "./build_modules.mjs";
import { ROOT, run } from "./run.mjs";

/**
 * The files of `src` that package.json names and that have a CommonJS form.
 * All bundles lie in one folder.
 */
const ENTRIES = [
  "inline",
  "slim",
  "public",
  "create_guard",
  "handler",
  "stores/redis",
  "stores/postgres",
  "stores/durable_object",
  "stores/upstash",
  "stores/d1",
  "stores/deno_kv",
  "stores/dynamodb",
  "conformance",
  "errors",
];

/** Those that nothing requires. */
const MODULES_ONLY = ["workerd", "public_workerd", "cli"];

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
buildModules();
// Not by .bin, where the compiler has the same name as the older ones
// of the reference and of the tests.
run(process.execPath, ["node_modules/typescript-7/bin/tsc"]);
await bundle([...ENTRIES, ...MODULES_ONLY], "esm", "dist");
await bundle(ENTRIES, "cjs", "dist/cjs");
declareCommonJs();
for (const [workerd, edge] of [
  ["workerd.js", "edge.js"],
  ["public_workerd.js", "public_edge.js"],
]) {
  // What Nitro and Next.js import as a module, instead
  // of instantiating it themselves, ends in `?module`.
  const script = readFileSync(join("dist", workerd), "utf8");
  const imported = script.replaceAll('.wasm";', '.wasm?module";');
  if (imported === script) throw new Error(`dist/${workerd} imports no module`);
  writeFileSync(join("dist", edge), imported);
}
for (const declared of ["verifier.d.wasm.ts", "public.d.wasm.ts"]) {
  copyFileSync(join("src", declared), join("dist", declared));
}
// It has no place for a module that a program loads itself.
buildForJsr(ENTRIES.filter((entry) => entry !== "slim"));
run("node_modules/.bin/typedoc", []);
copyFileSync(join(ROOT, "LICENSE"), "LICENSE");

/**
 * Bundles each entry into one file: Node takes a third of a millisecond for every further one. The
 * errors stay apart, because all entries share them.
 */
async function bundle(entries, format, outdir) {
  await build({
    entryPoints: entries.map((entry) => `src/${entry}.ts`),
    format,
    outdir,
    // Only for Node are the names written that its `import` finds in CommonJS.
    platform: format === "cjs" ? "node" : "neutral",
    bundle: true,
    target: "es2022",
    entryNames: "[name]",
    plugins: [
      { name: "text", setup: (build) => build.onLoad({ filter: /\.(?:lua|sql)$/ }, textOf) },
    ],
    external: ["./errors.js", "./*.wasm", "node:*"],
    logLevel: "warning",
  });
}

/**
 * A script for a store, without its lines of comments, which nobody's bundle or server needs. D1
 * executes a script line by line, so there each statement gets a line.
 */
function textOf({ path }) {
  const text = readFileSync(path, "utf8").replace(/^ *--.*\n/gm, "");
  return { contents: path.includes("/d1/") ? text.replace(/\n +/g, " ") : text, loader: "text" };
}

/**
 * Makes `dist/cjs` a folder of CommonJS with declarations, for those that cannot `require` a
 * module, such as Jest. Runtimes and bundlers that can get one copy, by the conditions
 * `module-sync`, `bun` and `module`: with two, an error of one is no instance of the other's class.
 */
function declareCommonJs() {
  for (const folder of ["stores", "handler"]) mkdirSync(`dist/cjs/${folder}`, { recursive: true });
  writeFileSync("dist/cjs/package.json", '{ "type": "commonjs" }\n');
  // TypeScript takes a declaration for that of a module, or not, by the package.json next to it.
  for (const file of JSON.parse(readFileSync("package.json", "utf8")).files) {
    if (file.endsWith(".d.ts")) copyFileSync(file, file.replace("dist/", "dist/cjs/"));
  }
}

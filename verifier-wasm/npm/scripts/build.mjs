// `npm run build`: builds everything that the package contains.
// The same sources give the same bytes.
//
// The modules; then the TypeScript, which tsc checks and declares and esbuild bundles;
// then the reference.

import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { build, transform } from "esbuild";

import { buildForJsr } from "./build_jsr.mjs";
import { buildModules } from "./build_modules.mjs";
import { keepDeclarations } from "./declarations.mjs";
import { ENTRIES, edgeOf, FOR_WORKERD, MODULES, MODULES_ONLY, workerdOf } from "./entries.mjs";
import { writeReasons } from "./reasons.mjs";
import { ROOT, run } from "./run.mjs";

/**
 * What bundles import instead of having it, by the names of the sources: the errors, which all of
 * them share, and the languages, which the handler loads when a visitor asks for one.
 */
const APART = /\/(errors|languages)\.js$/;

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
buildModules();
writeReasons();
// Not by .bin, where the compiler has the same name as the older ones
// of the reference and of the tests.
run(process.execPath, ["node_modules/typescript-7/bin/tsc"]);
await bundle([...ENTRIES, ...MODULES_ONLY], "esm", "dist");
await bundle(ENTRIES, "cjs", "dist/cjs");
const declarations = keepDeclarations("dist");
declareCommonJs(declarations);
for (const entry of FOR_WORKERD) {
  // What Nitro and Next.js import as a module, instead
  // of instantiating it themselves, ends in `?module`.
  const script = readFileSync(join("dist", workerdOf(entry)), "utf8");
  const imported = script.replaceAll('.wasm";', '.wasm?module";');
  if (imported === script) throw new Error(`dist/${workerdOf(entry)} imports no module`);
  writeFileSync(join("dist", edgeOf(entry)), imported);
}
for (const module of MODULES) {
  const declared = `${module}.d.wasm.ts`;
  copyFileSync(join("src/entries", declared), join("dist", declared));
}
buildForJsr(declarations);
run("node_modules/.bin/typedoc", []);
copyFileSync(join(ROOT, "LICENSE"), "LICENSE");

/**
 * Bundles each entry into one file: Node takes a third of a millisecond for every further one. The
 * errors stay apart, because all entries share them.
 */
async function bundle(entries, format, outdir) {
  await build({
    entryPoints: entries.map((entry) => `src/entries/${entry}.ts`),
    format,
    outdir,
    // Only for Node are the names written that its `import` finds in CommonJS.
    platform: format === "cjs" ? "node" : "neutral",
    // Jest cannot import what CommonJS loads late, but require it.
    supported: { "dynamic-import": format !== "cjs" },
    bundle: true,
    target: "es2022",
    entryNames: "[name]",
    plugins: [
      { name: "text", setup: (build) => build.onLoad({ filter: /\.(?:lua|sql)$/ }, textOf) },
      { name: "page", setup: (build) => build.onLoad({ filter: /\.(?:page\.js|css)$/ }, minified) },
      {
        name: "apart",
        setup: (build) => build.onResolve({ filter: APART }, ofOwnFile),
      },
    ],
    external: ["./*.wasm", "node:*"],
    logLevel: "warning",
  });
}

/** Every bundle but that of the entry itself imports it from there: they lie in one folder. */
function ofOwnFile({ importer, path }) {
  const [, name] = APART.exec(path);
  return importer.endsWith(`/entries/${name}.ts`)
    ? undefined
    : { path: `./${name}.js`, external: true };
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
 * What pages of the handler have in each answer, in as few bytes as it can be written: a style
 * sheet, or a function, as an expression.
 */
async function minified({ path }) {
  const loader = path.endsWith(".css") ? "css" : "js";
  const text = readFileSync(path, "utf8");
  // No newer syntax than it is written in.
  const { code } = await transform(text, { loader, minify: true, target: "es2020" });
  return { contents: code.trim().replace(/^export default |;$/g, ""), loader: "text" };
}

/**
 * Makes `dist/cjs` a folder of CommonJS with declarations, for those that cannot `require` a
 * module, such as Jest. Runtimes and bundlers that can get one copy, by the conditions
 * `module-sync`, `bun` and `module`: with two, an error of one is no instance of the other's class.
 */
function declareCommonJs(declarations) {
  writeFileSync("dist/cjs/package.json", '{ "type": "commonjs" }\n');
  // TypeScript takes a declaration for that of a module, or not, by the package.json next to it.
  for (const file of declarations) {
    mkdirSync(join("dist/cjs", dirname(file)), { recursive: true });
    copyFileSync(join("dist", file), join("dist/cjs", file));
  }
}

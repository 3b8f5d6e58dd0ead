// The entries of the package are the files of `src/entries`, and nothing else is. From them follow
// `exports`, `typesVersions`, `main` and `files` of package.json, which `npm run entries` writes
// and a test compares. Nobody keeps the rest: the build writes jsr.json, and `npm run pack` the
// folders for those that do not read `exports`.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** The entry that the package's own name stands for. */
const MAIN = "main";

/** The command, which nothing imports. */
const COMMAND = "cli";

/** What an entry's name ends in whose module workerd imports as a file. */
const WORKERD = "_workerd";

/** JSR has no place for modules that a program loads itself. */
const NOT_ON_JSR = ["slim"];

/** The folder of the package. */
export const FOLDER = fileURLToPath(new URL("..", import.meta.url));

const sources = readdirSync(join(FOLDER, "src/entries"), { recursive: true })
  .map((file) => file.replaceAll("\\", "/"))
  .filter((file) => file.endsWith(".ts"))
  .toSorted();

/** The files that are bundled, by their paths in `src/entries` without an ending. */
const scripts = sources
  .filter((file) => !file.endsWith(".d.wasm.ts"))
  .map((file) => file.replace(/\.ts$/, ""));

/** Those that are imported by a name of their own, the main one first. */
export const ENTRIES = scripts
  .filter((entry) => entry !== COMMAND && !entry.endsWith(WORKERD))
  .toSorted((one, other) => Number(other === MAIN) - Number(one === MAIN));

/** Those that nothing requires: the command, and the forms for workerd. */
export const MODULES_ONLY = scripts.filter((entry) => !ENTRIES.includes(entry));

/** The entries that workerd and bundlers for it get in another form. */
export const FOR_WORKERD = ENTRIES.filter((entry) => scripts.includes(`${entry}${WORKERD}`));

export const ENTRIES_OF_JSR = ENTRIES.filter((entry) => !NOT_ON_JSR.includes(entry));

/** The modules that are declared in `src/entries`: `verifier.wasm` and `public.wasm`. */
export const MODULES = sources
  .filter((file) => file.endsWith(".d.wasm.ts"))
  .map((file) => file.replace(".d.wasm.ts", ""));

/** Its bundle: all lie in one folder. */
export const bundleOf = (entry) => `${entry.split("/").at(-1)}.js`;

/** The form of its bundle that workerd gets, and the one for frameworks. */
export const workerdOf = (entry) => bundleOf(`${entry}${WORKERD}`);
export const edgeOf = (entry) => bundleOf(`${entry}_edge`);

/** The declarations of what its bundle exports, in `dist` and in `dist/cjs`. */
export const declaredIn = (entry) => `entries/${entry}.d.ts`;

/** How it is imported: `./stores/durable-object` for `stores/durable_object`. */
const nameOf = (entry) => (entry === MAIN ? "." : `./${entry.replaceAll("_", "-")}`);

function exportsOf(entry) {
  const bundle = `./dist/${bundleOf(entry)}`;
  const required = `./dist/cjs/${bundleOf(entry)}`;
  const edge = `./dist/${edgeOf(entry)}`;
  return {
    types: {
      require: `./dist/cjs/${declaredIn(entry)}`,
      default: `./dist/${declaredIn(entry)}`,
    },
    // The first condition that holds counts, and Nitro sets all of these.
    ...(FOR_WORKERD.includes(entry) && {
      unwasm: edge,
      "edge-light": edge,
      workerd: `./dist/${workerdOf(entry)}`,
    }),
    "module-sync": bundle,
    bun: bundle,
    module: bundle,
    require: required,
    default: bundle,
  };
}

/** What of package.json follows from the entries. */
export function ofPackage() {
  const named = ENTRIES.filter((entry) => entry !== MAIN);
  return {
    exports: {
      ...Object.fromEntries(ENTRIES.map((entry) => [nameOf(entry), exportsOf(entry)])),
      ...Object.fromEntries(
        MODULES.map((module) => [
          `./${module}.wasm`,
          { types: `./dist/${module}.d.wasm.ts`, default: `./dist/${module}.wasm` },
        ]),
      ),
      "./package.json": "./package.json",
    },
    main: `./dist/cjs/${bundleOf(MAIN)}`,
    types: `./dist/${declaredIn(MAIN)}`,
    typesVersions: {
      "*": Object.fromEntries(
        named.map((entry) => [nameOf(entry).slice(2), [`./dist/${declaredIn(entry)}`]]),
      ),
    },
  };
}

/**
 * What leads to an entry where `exports` is not read, as in Parcel by default: a package.json in
 * a folder of its name. By the file's path in the package.
 */
export function folders() {
  const named = ENTRIES.filter((entry) => entry !== MAIN);
  return Object.fromEntries(
    named.map((entry) => {
      const name = nameOf(entry).slice(2);
      const up = "../".repeat(name.split("/").length);
      const leads = {
        main: `${up}dist/cjs/${bundleOf(entry)}`,
        module: `${up}dist/${bundleOf(entry)}`,
        types: `${up}dist/${declaredIn(entry)}`,
        sideEffects: false,
      };
      return [`${name}/package.json`, leads];
    }),
  );
}

/** `exports` of jsr.json. */
export function exportsOfJsr() {
  return Object.fromEntries(
    ENTRIES_OF_JSR.map((entry) => [nameOf(entry), `./dist/jsr/${bundleOf(entry)}`]),
  );
}

/** Writes an object into a file of JSON, in the place of the members of the same names. */
function update(file, members) {
  const path = join(FOLDER, file);
  const content = { ...JSON.parse(readFileSync(path, "utf8")), ...members };
  writeFileSync(path, `${JSON.stringify(content, undefined, 2)}\n`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const files = JSON.parse(readFileSync(join(FOLDER, "package.json"), "utf8")).files;
  const others = files.filter((file) => !file.endsWith("/package.json"));
  update("package.json", { ...ofPackage(), files: [...others, ...Object.keys(folders())] });
}

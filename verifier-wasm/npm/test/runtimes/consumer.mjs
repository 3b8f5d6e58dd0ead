// A fresh project that has installed the packed package, as its users do.

import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";

export const PACKAGE = "mailroom-verifier";

/** The module from which the suite has what defines further actions. */
export const DEFINING = "defining.mjs";

const SUITE = fileURLToPath(new URL("suite", import.meta.url));
const VECTORS = fileURLToPath(new URL("../../../../tests/vectors", import.meta.url));

/**
 * Makes `folder` anew with nothing in it but a `package.json`
 * and what `npm install <tarball>` puts there.
 *
 * @returns the folder of the installed package
 */
export function install(folder, tarball) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  write(
    folder,
    "package.json",
    JSON.stringify({ name: "consumer", private: true, type: "module" }),
  );
  execFileSync("npm", ["install", "--ignore-scripts", "--no-audit", "--no-fund", tarball], {
    cwd: folder,
    stdio: ["ignore", "ignore", "inherit"],
  });
  const installed = join(folder, "node_modules", PACKAGE);
  if (realpathSync(installed) !== join(realpathSync(folder), "node_modules", PACKAGE)) {
    throw new Error("npm linked the package instead of installing it; give it the packed tarball");
  }
  return installed;
}

/**
 * Copies the suite into the consumer, beside its vectors as a module that every runtime can import.
 */
export function addSuite(folder) {
  cpSync(SUITE, join(folder, "suite"), { recursive: true });
  for (const version of ["v1", "v2", "v3", "actions", "bound"]) {
    const vectors = readFileSync(join(VECTORS, `${version}.json`), "utf8");
    write(folder, `suite/${version}.mjs`, `export default ${vectors};\n`);
  }
  // In the folder itself, as what runs the suite: workerd and pages find names from there alone.
  write(folder, DEFINING, `export { defineActions } from "${posix.join(PACKAGE, "actions")}";\n`);
}

/**
 * Adds what the tests of the whole surface need: a list of it, and all entries as one module that
 * every runtime can import.
 */
export async function addSurface(folder, installed) {
  // The compiler takes a second to load, and not every test that installs the package needs it.
  const { surfaceOf } = await import("./surface.mjs");
  const listed = surfaceOf(installed);
  write(folder, "suite/surface_list.mjs", `export default ${JSON.stringify(listed)};\n`);
  const entries = [...new Set(listed.map(({ entry }) => entry))];
  const imports = entries.map(
    (entry, at) => `import * as entry${at} from "${posix.join(PACKAGE, entry)}";\n`,
  );
  const names = entries.map((entry, at) => `"${entry}": entry${at}`);
  write(folder, "entries.mjs", `${imports.join("")}export default { ${names.join(", ")} };\n`);
  return entries;
}

export function write(folder, name, text) {
  writeFileSync(join(folder, name), text);
}

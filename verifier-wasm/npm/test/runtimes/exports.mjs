// Resolves an entry of a package as a runtime with the given conditions does.

import { readFileSync } from "node:fs";
import { join } from "node:path";

/** The path inside the package of `subpath` (`.`, `./errors`). */
export function resolveExport(folder, subpath, conditions) {
  const { exports } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const path = target(exports[subpath], [...conditions, "default"]);
  if (path === undefined) {
    throw new Error(`the package has no ${subpath} for ${conditions.join(", ")}`);
  }
  return path.replace(/^\.\//, "");
}

function target(entry, conditions) {
  if (typeof entry === "string" || entry === undefined) {
    return entry;
  }
  // Conditions match in the order of the package, not in that of the runtime.
  for (const [condition, inner] of Object.entries(entry)) {
    const path = conditions.includes(condition) ? target(inner, conditions) : undefined;
    if (path !== undefined) {
      return path;
    }
  }
  return undefined;
}

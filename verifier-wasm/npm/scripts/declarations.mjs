// The declarations that the package has: those of its entries, and those that they import.

import { readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

import { declaredIn, ENTRIES } from "./entries.mjs";

/**
 * Deletes the declarations in a folder that no entry leads to, since what is not named there is
 * not public. Returns the others, by their paths in the folder.
 */
export function keepDeclarations(folder) {
  const reached = new Set(reachable(folder));
  const isDeclaration = (file) => file.endsWith(".d.ts");
  for (const file of readdirSync(folder, { recursive: true }).filter(isDeclaration)) {
    if (!reached.has(file)) rmSync(join(folder, file));
  }
  removeEmptyFolders(folder);
  return [...reached];
}

/** The declarations in a folder that the entries lead to. */
export function reachable(folder) {
  const found = new Set();
  const waiting = ENTRIES.map(declaredIn);
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (found.has(file)) continue;
    found.add(file);
    const text = readFileSync(join(folder, file), "utf8");
    for (const [, imported] of text.matchAll(/(?:from|import\() ?"(\.[^"]+)\.js"/g)) {
      waiting.push(normalize(join(dirname(file), `${imported}.d.ts`)));
    }
  }
  return [...found].toSorted();
}

function removeEmptyFolders(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) removeEmptyFolders(join(folder, entry.name));
  }
  if (readdirSync(folder).length === 0) rmSync(folder, { recursive: true });
}

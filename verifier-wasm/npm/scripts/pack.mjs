// `npm run pack -- OPTIONS`: `npm pack OPTIONS`, with the folders for those that do not read
// `exports`, which are there only meanwhile. They are not made by `prepack`, which npm does not run
// where its setting is `ignore-scripts`.

import { existsSync, mkdirSync, readdirSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { FOLDER, folders } from "./entries.mjs";
import { run } from "./run.mjs";

const made = Object.entries(folders()).map(([file, content]) => [join(FOLDER, file), content]);
try {
  for (const [path, content] of made) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, `${JSON.stringify(content, undefined, 2)}\n`);
  }
  run("npm", ["pack", "--silent", ...process.argv.slice(2)], { cwd: FOLDER });
} finally {
  for (const [path] of made) {
    rmSync(path, { force: true });
    // Another entry may lie in the same folder.
    for (let folder = dirname(path); isEmpty(folder); folder = dirname(folder)) rmdirSync(folder);
  }
}

function isEmpty(folder) {
  return existsSync(folder) && readdirSync(folder).length === 0;
}

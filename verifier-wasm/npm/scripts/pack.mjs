// `npm run pack -- OPTIONS`: `npm pack OPTIONS`, with the folders for those that do not read
// `exports`, and the SQL of the book that REFERENCE.md names, which are there only meanwhile. They
// are not made by `prepack`, which npm does not run where its setting is `ignore-scripts`.

import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";

import { FOLDER, folders } from "./entries.mjs";
import { run } from "./run.mjs";

const USERS = join(FOLDER, "../../docs/examples/existing_users.sql");

const made = Object.entries(folders()).map(([file, content]) => [
  join(FOLDER, file),
  `${JSON.stringify(content, undefined, 2)}\n`,
]);
made.push([join(FOLDER, "users.sql"), readFileSync(USERS, "utf8")]);
try {
  for (const [path, content] of made) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
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

// Makes `dist/jsr`, which jsr.json publishes: the same modules, each naming its declarations, and
// declarations that name files that exist. JSR maps no `.js` to a `.d.ts`, and knows no conditions.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

const SOURCE = "dist";
const TARGET = "dist/jsr";

/**
 * @param {readonly string[]} entries the files of `src` without their ending, each bundled into one
 * file of `dist`
 */
export function buildForJsr(entries) {
  rmSync(TARGET, { recursive: true, force: true });
  mkdirSync(TARGET);
  for (const entry of entries) {
    const name = `${entry.split("/").at(-1)}.js`;
    const script = readFileSync(join(SOURCE, name), "utf8");
    writeFileSync(join(TARGET, name), `/* @ts-self-types="./${entry}.d.ts" */\n${script}`);
  }
  // As in the npm package, what is not named there is not public.
  const { files } = JSON.parse(readFileSync("package.json", "utf8"));
  for (const file of files.filter((file) => file.endsWith(".d.ts"))) {
    const target = join(TARGET, relative(SOURCE, file));
    mkdirSync(dirname(target), { recursive: true });
    const declared = readFileSync(file, "utf8");
    writeFileSync(target, declared.replaceAll(/(from|import\() ?"(\.[^"]+)\.js"/g, '$1 "$2.d.ts"'));
  }
}

// What a page of docs/start shows, in the order in which a reader does it.

import { readFileSync } from "node:fs";

const BLOCK = /^(?:<!-- (?<mark>[^>]*) -->\n)?```(?<language>\w+)\n(?<text>[\s\S]*?)^```$/gm;
const NOT_EXECUTED = /^not executed: \S/;

/**
 * The steps of a page: `{ file, text }` for a file whose name is in its first line, `{ text }` for
 * commands, and `{ text, runsOn: true }` for those of a terminal that is left open.
 */
export function stepsOf(path) {
  const page = readFileSync(path, "utf8");
  const fences = page.split("\n").filter((line) => line.startsWith("```")).length;
  const blocks = [...page.matchAll(BLOCK)].map(({ groups }) => groups);
  if (fences !== 2 * blocks.length) throw new Error(`${path}: a block is spelt otherwise`);
  return blocks.flatMap(({ mark, language, text }) => {
    if (mark !== undefined && NOT_EXECUTED.test(mark)) return [];
    if (mark !== undefined && mark !== "runs on") throw new Error(`${path}: what is "${mark}"?`);
    if (language === "bash") return [{ text, runsOn: mark !== undefined }];
    const file = /^\/\/ (\w+\.js)\n/.exec(text)?.[1];
    if (language !== "js" || file === undefined) {
      throw new Error(`${path}: a block is neither commands nor a file:\n${text}`);
    }
    return [{ file, text }];
  });
}

// The README of the package, taken apart as its readers do.

import { transformSync } from "esbuild";

const BLOCK =
  /^(?<mark><!-- not executed: \S[^>]* -->\n)?```(?<language>\w*)\n(?<text>.*?)^```$/gms;

/** The fenced blocks, in order: `{ language, text }`. Not those that say why nobody runs them. */
export function blocks(document) {
  return [...document.matchAll(BLOCK)].flatMap(({ groups: { mark, language, text } }) =>
    mark === undefined ? [{ language, text }] : [],
  );
}

/** The files that the document shows, by the name in the comment that each begins with. */
export function files(document) {
  const named = /^(?:\/\/ (\S+)|<!-- (\S+) -->)\n/;
  return Object.fromEntries(
    blocks(document)
      .filter(({ language }) => ["js", "jsx", "ts", "tsx", "html", "svelte"].includes(language))
      .map(({ text }) => {
        const [, script, page] = named.exec(text) ?? [];
        const name = script ?? page;
        if (name === undefined) {
          throw new Error(`a block does not begin with the name of its file: ${text.slice(0, 60)}`);
        }
        return [name, text];
      }),
  );
}

/** A file of TypeScript as JavaScript, which imports such files in its place. */
export function withoutTypes(text) {
  const { code } = transformSync(text, { loader: "ts", target: "es2022" });
  return code.replaceAll(/"(\.[^"]+)\.ts"/g, '"$1.js"');
}

/** The commands, each block with what the document says they print. */
export function commands(document) {
  const all = blocks(document);
  return all.flatMap(({ language, text }, index) => {
    // The book has `bash`, since another test runs its blocks of `sh`.
    if (!["sh", "bash"].includes(language)) {
      return [];
    }
    const next = all[index + 1];
    if (next?.language !== "text") {
      throw new Error(`the document does not say what this prints: ${text}`);
    }
    return [{ text, output: next.text }];
  });
}

/** The sections of errors.md: `{ reason, name, kind, under }`, `under` being the heading above. */
export function errorSections(document) {
  return document.split(/^## /m).flatMap((part) => {
    const [under] = part.split("\n", 1);
    const sections = part.matchAll(/^### (\w+)\n\n`(\w+)`, (\w+): (.+?)\n(?:\n|$)/gms);
    // What happened is a sentence, and what to do is the next. Both may be wrapped.
    return [...sections]
      .filter(([, , , , help]) => /^.+\.\s[A-Z].+\.$/s.test(help))
      .map(([, reason, name, kind]) => ({ reason, name, kind, under }));
  });
}

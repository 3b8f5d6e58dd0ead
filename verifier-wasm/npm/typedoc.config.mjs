// The reference: a page for each entry.

import { ENTRIES } from "./scripts/entries.mjs";

export default {
  name: "mailroom-verifier",
  // The first entry that has something is where the others link to.
  entryPoints: ENTRIES.map((entry) => `src/entries/${entry}.ts`),
  out: "docs",
  plugin: ["typedoc-plugin-markdown"],
  outputFileStrategy: "modules",
  readme: "none",
  disableSources: true,
  hideBreadcrumbs: true,
  hidePageHeader: true,
  excludeInternal: true,
  githubPages: false,
  intentionallyNotExported: ["src/token/version.ts:Version"],
  logLevel: "Warn",
};

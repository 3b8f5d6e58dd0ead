// What a page runs of `./web`: leaves the results where the test looks for them. The query says how
// many random tokens are judged; without it no module of WebAssembly is loaded.

import * as errors from "mailroom-verifier/errors";
import * as webEntry from "mailroom-verifier/web";
import { runWeb } from "./suite/web.mjs";

const count = Number(new URL(location.href).searchParams.get("count"));
const modules = count > 0 && {
  verifierPackage: await import("mailroom-verifier"),
  publicEntry: await import("mailroom-verifier/public"),
};

runWeb({ webEntry, errors, ...modules, count, inWindow: true }).then(
  (results) => (globalThis.results = results),
  (error) => (globalThis.results = [{ name: "web", error: String(error?.stack ?? error) }]),
);

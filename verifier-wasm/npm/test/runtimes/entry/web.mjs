// What Node, Deno and Bun run of `./web`: prints the results as its last line. Its argument is how
// many random tokens are judged.

import * as verifierPackage from "mailroom-verifier";
import * as errors from "mailroom-verifier/errors";
import * as publicEntry from "mailroom-verifier/public";
import * as webEntry from "mailroom-verifier/web";
import { runWeb } from "./suite/web.mjs";

const count = Number(process.argv[2]);
const loaded = { webEntry, verifierPackage, publicEntry, errors, inWindow: false };
console.log(JSON.stringify(await runWeb({ ...loaded, count })));

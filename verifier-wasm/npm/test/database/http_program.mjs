// What Node, Deno and Bun run of `http`: prints the results as its last line. Its argument is what
// was prepared.

import { calls } from "./http_calls.mjs";
import { outcomes } from "./outcomes.mjs";

console.log(JSON.stringify(await outcomes(calls(JSON.parse(process.argv[2])))));

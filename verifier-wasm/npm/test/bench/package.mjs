// The bytes of the package: `node package.mjs --tarball=FILE --folder=FOLDER [--json]`.
// FOLDER is made anew.

import { prepare } from "./command_line.mjs";
import { sizes } from "./size.mjs";

const { tarball, consumer, json } = prepare();
const measured = await sizes(tarball, consumer);
if (json) {
  console.log(JSON.stringify(measured));
} else {
  const line = (what, bytes) =>
    console.log(`${what.padEnd(40)} ${bytes.toLocaleString("en").padStart(8)} bytes`);
  line("the WebAssembly module", measured.wasm_bytes);
  line("the inlined entry, minified and gzipped", measured.inline_min_gzip_bytes);
  line("the module of ./public", measured.public_wasm_bytes);
  line("that module gzipped", measured.public_wasm_gzip_bytes);
  line("./public, minified and gzipped", measured.public_min_gzip_bytes);
  line("the packed package", measured.tarball_bytes);
}

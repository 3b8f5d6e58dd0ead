// Checks the types of everything: what runs on Node,
// at the edge and in pages has different globals.

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const compiler = fileURLToPath(new URL("node_modules/typescript/bin/tsc", import.meta.url));
const failed = [".", "edge", "pages"].filter((project) => {
  return (
    spawnSync(process.execPath, [compiler, "--project", project], { stdio: "inherit" }).status !== 0
  );
});
process.exitCode = failed.length === 0 ? 0 : 1;

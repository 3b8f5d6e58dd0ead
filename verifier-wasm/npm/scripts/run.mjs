// What the scripts share.

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

/** The folder of the cargo workspace. */
export const ROOT = fileURLToPath(new URL("../../..", import.meta.url));

/** Runs a program to its end; anything but success ends the script. */
export function run(program, arguments_, options = {}) {
  const { status, error } = spawnSync(program, arguments_, { stdio: "inherit", ...options });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`${program} ended with status ${status}`);
}

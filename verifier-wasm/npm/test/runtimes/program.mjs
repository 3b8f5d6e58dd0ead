// Runs a program that prints the results of the suite as its last line.

import { execFile } from "node:child_process";
import { promisify } from "node:util";

import { ANSWER_TIMEOUT } from "./scope.mjs";

/** @returns {Promise<{ name: string, error?: string }[]>} */
export async function resultsOf(program, args, folder) {
  const options = {
    cwd: folder,
    timeout: ANSWER_TIMEOUT,
    killSignal: "SIGKILL",
    maxBuffer: 1 << 28,
  };
  const { stdout } = await promisify(execFile)(program, args, options);
  return JSON.parse(stdout.trimEnd().split("\n").at(-1));
}

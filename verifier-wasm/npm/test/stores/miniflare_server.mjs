// A Worker in workerd as miniflare configures it, in a process of its own.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const PROGRAM = fileURLToPath(new URL("miniflare.mjs", import.meta.url));

/**
 * Serves a Worker while `use` asks it.
 *
 * @param {string} node the program of a Node that is new enough for miniflare
 * @param {{ folder: string, modules: string[], databases?: string[],
 *   objects?: Record<string, string>, flags?: string[],
 *   bindings?: Record<string, string> }} worker
 * modules: the files of the folder, the first of which answers; databases: bindings of D1;
 * objects: classes of Durable Objects that it exports, by the names that they are bound to; flags:
 * those of its compatibility; bindings: texts by the names that they are bound to
 * @param {(url: string) => Promise<T>} use
 * @returns {Promise<T>}
 */
export async function withMiniflare(node, worker, use) {
  const server = spawn(node, [PROGRAM], { stdio: ["pipe", "pipe", "pipe"] });
  let said = "";
  server.stderr.on("data", (chunk) => (said += chunk));
  // It ends with its input, so also with this process.
  server.stdin.write(`${JSON.stringify(worker)}\n`);
  const ended = once(server, "exit");
  try {
    const { value: url } = await createInterface({ input: server.stdout })
      [Symbol.asyncIterator]()
      .next();
    if (url === undefined) throw new Error("miniflare did not start");
    return await use(url);
  } catch (error) {
    throw new Error(`${error.message}; miniflare said: ${said.trim() || "nothing"}`, {
      cause: error,
    });
  } finally {
    server.stdin.end();
    await ended;
  }
}

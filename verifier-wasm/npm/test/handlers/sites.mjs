// Serves applications of frameworks, each with no option that a new project of it would not have.
// None is built with a key or an address: machines that build have none.

import { once } from "node:events";
import { readdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { PATIENCE } from "../waiting.mjs";

/** Makes the frameworks importable in a folder into which the package is installed. */
export function addFrameworks(folder) {
  const modules = fileURLToPath(new URL("node_modules", import.meta.url));
  for (const name of readdirSync(modules).filter((found) => !found.startsWith("."))) {
    symlinkSync(join(modules, name), join(folder, "node_modules", name));
  }
}

/** Waits until a server says where it listens, and ends it afterwards. */
export async function served(server, ready, use) {
  let said = "";
  const ended = once(server, "exit");
  const timer = setTimeout(() => server.kill(), PATIENCE);
  try {
    const address = await new Promise((resolve, reject) => {
      for (const stream of [server.stdout, server.stderr]) {
        stream.on("data", (chunk) => {
          said += chunk;
          const found = /http:\/\/[^/\s]+/.exec(said)?.[0];
          if (found !== undefined && ready.test(said))
            resolve(found.replace(/0\.0\.0\.0|localhost/, "127.0.0.1"));
        });
      }
      ended.then(() => reject(new Error(`the server has ended: ${said}`)));
    });
    clearTimeout(timer);
    return await use(address);
  } finally {
    clearTimeout(timer);
    server.kill();
    await ended;
  }
}

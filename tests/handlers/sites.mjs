// Builds and serves applications of frameworks, each with no option that a new project of it would not have. None is built
// with a key or an address: machines that build have none.

import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const WORKSPACE = fileURLToPath(new URL("../..", import.meta.url));
const START = 60_000;

/** Makes the frameworks importable in a folder into which the package is installed. */
export function addFrameworks(folder) {
  const modules = fileURLToPath(new URL("node_modules", import.meta.url));
  for (const name of readdirSync(modules).filter((found) => !found.startsWith("."))) {
    symlinkSync(join(modules, name), join(folder, "node_modules", name));
  }
}

/** What the frameworks find in their environment while they build: no keys, and nobody to tell how they are used. */
const WHILE_BUILDING = {
  ...{ PATH: process.env.PATH, CI: "true", NO_COLOR: "1", WORKSPACE },
  ...{ NEXT_TELEMETRY_DISABLED: "1", NUXT_TELEMETRY_DISABLED: "1", ASTRO_TELEMETRY_DISABLED: "1" },
};

/** Runs a program of the framework, and says where it is. */
export function built(site, program, given, node = process.execPath) {
  const path = join(site, "../node_modules", program);
  const { status, stdout, stderr } = spawnSync(node, [path, ...given], {
    cwd: site,
    encoding: "utf8",
    env: { ...WHILE_BUILDING, HOME: join(site, "home") },
  });
  if (status !== 0) throw new Error(`${program} has ended with ${status}: ${stdout}${stderr}`);
  return path;
}

/** Waits until a server says where it listens, and ends it afterwards. */
export async function served(server, ready, use) {
  let said = "";
  const ended = once(server, "exit");
  const timer = setTimeout(() => server.kill(), START);
  try {
    const address = await new Promise((resolve, reject) => {
      for (const stream of [server.stdout, server.stderr]) {
        stream.on("data", (chunk) => {
          said += chunk;
          const found = /http:\/\/[^/\s]+/.exec(said)?.[0];
          if (found !== undefined && ready.test(said)) resolve(found.replace(/0\.0\.0\.0|localhost/, "127.0.0.1"));
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

// A server of Redis or Valkey of its own for a test, on a socket in a folder,
// without anything on disk.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

import { SUPERVISE } from "../runtimes/supervise.mjs";
import { until } from "../waiting.mjs";

/**
 * In milliseconds. By default node-redis gives a command up after 5 s, which ten thousand at once
 * take on a busy machine.
 */
export const COMMAND_TIMEOUT = 120_000;

/** The servers of this machine. */
export function servers() {
  const folders = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin"];
  return ["redis-server", "valkey-server"].flatMap((name) => {
    const program = folders.map((folder) => join(folder, name)).find(existsSync);
    return program === undefined ? [] : [{ name: name.replace("-server", ""), program }];
  });
}

/**
 * Runs a server while `use` has the path of its socket; `stop` ends it sooner.
 *
 * @param {string} program
 * @param {Record<string, string>} settings those of the configuration file
 */
export async function withRedis(program, settings, use) {
  // Sockets have short names, so not in the folder of the tests.
  const folder = mkdtempSync(join(tmpdir(), "mailroom-redis-"));
  const socket = join(folder, "socket");
  const all = {
    port: "0",
    unixsocket: socket,
    dir: folder,
    save: "",
    appendonly: "no",
    ...settings,
  };
  const args = Object.entries(all).flatMap(([name, value]) => [`--${name}`, value]);
  const server = spawn("/bin/sh", ["-c", SUPERVISE, "redis", program, ...args], {
    stdio: ["pipe", "pipe", "pipe", "ignore"],
  });
  let output = "";
  server.stdout.on("data", (chunk) => (output += chunk));
  server.stderr.on("data", (chunk) => (output += chunk));
  const ended = once(server, "exit");
  const stop = async () => {
    server.stdin.end();
    await ended;
  };
  try {
    await until(`the socket of ${program}`, () => {
      if (server.exitCode !== null)
        throw new Error(`${program} did not start; it said: ${output.trim() || "nothing"}`);
      // It is there a moment before anybody listens.
      return listens(socket);
    });
    return await use(socket, stop);
  } finally {
    await stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

function listens(path) {
  return new Promise((resolve) => {
    const connection = connect(path);
    connection.once("connect", () => {
      connection.destroy();
      resolve(true);
    });
    connection.once("error", () => resolve(false));
  });
}

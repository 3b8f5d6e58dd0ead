// Runs a folder of modules as a Worker in workerd, the runtime of Cloudflare Workers.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, rmSync } from "node:fs";
import { get } from "node:http";
import { join, posix, relative } from "node:path";
import { createInterface } from "node:readline";
import { text as textOf } from "node:stream/consumers";

import { write } from "./consumer.mjs";
import { folderInMemory } from "./memory.mjs";
import { ANSWER_TIMEOUT } from "./scope.mjs";
import { SUPERVISE } from "./supervise.mjs";
import { PATIENCE } from "../waiting.mjs";

/**
 * Serves `main` of `folder` while `use` asks it, then stops.
 *
 * @param {{ program: string, folder: string, main: string, date: string, flags?: string[],
 *   aliases?: object, bindings?: object, objects?: object, log?: (text: string) => void }} worker
 * aliases: names under which files can be imported, such as
 * `{ "mailroom-verifier": "node_modules/…/index.js" }`; bindings: what the Worker finds in its
 * environment: `texts`, and `servers` by their address; objects: classes of Durable Objects that
 * `main` exports, kept until it stops, by the names that they are bound to; log: gets what workerd
 * has printed, once it has ended
 * @param {(url: string) => Promise<T>} use
 * @returns {Promise<T>}
 */
export async function withWorker({ program, folder, log, ...worker }, use) {
  const disk = worker.objects === undefined ? undefined : folderInMemory("mailroom-objects-");
  try {
    write(folder, "workerd.capnp", configuration(folder, { ...worker, disk }));
    return await serving({ program, folder, log }, use);
  } finally {
    if (disk !== undefined) rmSync(disk, { recursive: true, force: true });
  }
}

async function serving({ program, folder, log }, use) {
  const server = spawn(
    "/bin/sh",
    ["-c", SUPERVISE, "workerd", program, "serve", join(folder, "workerd.capnp"), "--control-fd=3"],
    { stdio: ["pipe", "pipe", "pipe", "pipe"] },
  );
  let output = "";
  server.stdout.on("data", (chunk) => (output += chunk));
  server.stderr.on("data", (chunk) => (output += chunk));
  const ended = once(server, "exit");
  try {
    const port = await listening(server);
    if (port === undefined) {
      throw new Error("workerd did not start");
    }
    return await use(`http://127.0.0.1:${port}`);
  } catch (error) {
    throw new Error(`${error.message}; workerd said: ${output.trim() || "nothing"}`, {
      cause: error,
    });
  } finally {
    server.stdin.end();
    await ended;
    log?.(output);
  }
}

/** What the Worker at `url` answers: the results of the suite. */
export async function resultsOf(url) {
  // Not fetch, which waits for no more than five minutes.
  const [response] = await once(
    get(url, { signal: AbortSignal.timeout(ANSWER_TIMEOUT) }),
    "response",
  );
  const body = await textOf(response);
  if (response.statusCode !== 200) {
    throw new Error(`the Worker answered ${response.statusCode}: ${body}`);
  }
  return JSON.parse(body);
}

/** The port that workerd chose, or nothing if it ended or took too long. */
async function listening(server) {
  const lines = createInterface({ input: server.stdio[3] });
  const timer = setTimeout(() => lines.close(), PATIENCE);
  try {
    for await (const line of lines) {
      const { event, port } = JSON.parse(line);
      if (event === "listen") {
        return port;
      }
    }
    return undefined;
  } finally {
    clearTimeout(timer);
    lines.close();
  }
}

function configuration(
  folder,
  { main, date, flags = [], aliases = {}, bindings = {}, objects = {}, disk },
) {
  const { texts = {}, servers = {} } = bindings;
  const modules = [...files(folder)]
    .map((path) => ({ path, kind: KINDS[path.slice(path.lastIndexOf("."))] }))
    .filter(({ kind }) => kind !== undefined)
    // The first module is the one that answers.
    .sort((a, b) => Number(b.path === main) - Number(a.path === main))
    .map(({ path, kind }) => `(name = ${text(path)}, ${kind} = embed ${text(path)})`);
  for (const [name, path] of Object.entries(aliases)) {
    const target = posix.relative(posix.dirname(name), path);
    const what = path.endsWith(".wasm") ? "{ default }" : "*";
    const module = `export ${what} from ${text(target.startsWith(".") ? target : `./${target}`)};`;
    modules.push(`(name = ${text(name)}, esModule = ${text(module)})`);
  }
  const services = Object.entries(servers).map(
    ([name, address]) =>
      `(name = ${text(name)}, external = (address = ${text(address)}, http = ()))`,
  );
  const classNames = Object.values(objects);
  if (classNames.length > 0) {
    services.push(`(name = "disk", disk = (path = ${text(disk)}, writable = true))`);
  }
  const bound = [
    ...Object.entries(texts).map(
      ([name, value]) => `(name = ${text(name)}, text = ${text(value)})`,
    ),
    ...Object.keys(servers).map((name) => `(name = ${text(name)}, service = ${text(name)})`),
    ...Object.entries(objects).map(
      ([name, className]) => `(name = ${text(name)}, durableObjectNamespace = ${text(className)})`,
    ),
  ];
  const classes = classNames.map(
    (name) => `(className = ${text(name)}, uniqueKey = ${text(name)}, enableSql = true)`,
  );
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    ${['(name = "main", worker = .worker)', ...services].join(",\n    ")},
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);
const worker :Workerd.Worker = (
  modules = [
    ${modules.join(",\n    ")},
  ],
  compatibilityDate = ${text(date)},
  compatibilityFlags = [${flags.map(text).join(", ")}],
  bindings = [${bound.join(", ")}],
  durableObjectNamespaces = [${classes.join(", ")}],
  durableObjectStorage = ${classNames.length > 0 ? '(localDisk = "disk")' : "(none = void)"},
);
`;
}

const KINDS = { ".js": "esModule", ".mjs": "esModule", ".wasm": "wasm" };

function* files(folder, root = folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      yield* files(path, root);
    } else {
      yield relative(root, path).replaceAll("\\", "/");
    }
  }
}

// Quoted strings of Cap'n Proto are those of JSON as far as file names and imports go.
function text(value) {
  return JSON.stringify(value);
}

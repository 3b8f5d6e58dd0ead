// The demonstration, run as `cargo xtask demo` runs it.

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

import pg from "pg";

import { until, within } from "../../verifier-wasm/npm/test/waiting.mjs";

export class Demo {
  #child;
  #output = "";
  #ended;
  /** Of the page, without a slash at the end. */
  address;
  /** Of the inbox's own page, without a slash at the end. */
  inbox;
  /** Every process that belongs to it, by its id. */
  processes = new Map();
  database;
  /** For keys and logs, and for what the edge stores. */
  folders;

  /**
   * @param {string} program the script `stage.js`,
   * which finds what it needs by the variables of this process
   */
  static async start(program) {
    const demo = new Demo();
    demo.#child = spawn(process.execPath, [program], {
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    for (const stream of [demo.#child.stdout, demo.#child.stderr]) {
      stream.on("data", (chunk) => {
        demo.#output += chunk;
      });
    }
    demo.#ended = once(demo.#child, "exit");
    demo.address = await until("the address of the demonstration", () => {
      if (demo.#child.exitCode !== null)
        throw new Error(`the demonstration has ended: ${demo.#output}`);
      return /demonstration: (http:\/\/\S+)\//.exec(demo.#output)?.[1];
    });
    [, demo.inbox] = /inbox: (http:\/\/\S+)\//.exec(demo.#output);
    demo.processes = descendants(demo.#child.pid);
    const [, configuration] = /workerd serve (\S+\/edge\.capnp)/.exec(
      [...demo.processes.values()].join("\n"),
    );
    demo.folders = { private: dirname(configuration) };
    [, demo.folders.objects] = /name = "objects", disk = \(path = "([^"]+)"/.exec(
      demo.#configuration,
    );
    demo.database = await connect();
    return demo;
  }

  get output() {
    return this.#output;
  }

  /** What workerd was started with. */
  get #configuration() {
    return readFileSync(join(this.folders.private, "edge.capnp"), "utf8");
  }

  /** What each part has written, by the name of its file. */
  logs() {
    const folder = join(this.folders.private, "logs");
    return Object.fromEntries(
      readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), "utf8")]),
    );
  }

  /** The process of a part, as its command line tells. */
  processOf(pattern) {
    const found = [...descendants(this.#child.pid)].filter(([, command]) => pattern.test(command));
    if (found.length === 0) throw new Error(`no process is like ${pattern}`);
    return found[0][0];
  }

  /** Whether any process of it is like this. */
  has(pattern) {
    return [...descendants(this.#child.pid).values()].some((command) => pattern.test(command));
  }

  /** Where the stage listens, which no page is told. */
  get stage() {
    const configuration = this.#configuration;
    return `http://${/name = "STAGE", external = \(address = "([^"]+)"/.exec(configuration)[1]}`;
  }

  /** Changes what a page can change, by what its buttons call. Returns what is so then. */
  async change(name, body) {
    const answer = await fetch(`${this.address}/demo/${name}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    if (!answer.ok)
      throw new Error(`/demo/${name} was answered ${answer.status}: ${await answer.text()}`);
    return answer.json();
  }

  async query(text, values) {
    return (await this.database.pool.query(text, values)).rows;
  }

  /** Keeps the locks of a statement while `use` runs. */
  async holding(statement, use) {
    const { name, server } = this.database;
    const holder = new pg.Client({ ...server, database: name });
    await holder.connect();
    try {
      await holder.query(`BEGIN; ${statement}`);
      await use();
    } finally {
      await holder.end();
    }
  }

  /** Has the database refuse everybody while `use` runs, as a server does that goes down. */
  async withoutDatabase(use) {
    const { name, server } = this.database;
    const admin = new pg.Client({ ...server, database: "postgres" });
    await admin.connect();
    try {
      await admin.query(`ALTER DATABASE ${name} WITH ALLOW_CONNECTIONS false`);
      await admin.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1",
        [name],
      );
      await use();
    } finally {
      await admin.query(`ALTER DATABASE ${name} WITH ALLOW_CONNECTIONS true`);
      await admin.end();
    }
  }

  /** Presses Ctrl-C, and returns what it left behind and how it ended. */
  async interrupt() {
    this.processes = new Map([...this.processes, ...descendants(this.#child.pid)]);
    const folders = Object.values(this.folders);
    const kept = folders.filter((folder) => existsSync(folder));
    await this.database?.pool.end().catch(() => undefined);
    // As a terminal does: the whole group gets it, and the parts are in none of it.
    process.kill(-this.#child.pid, "SIGINT");
    try {
      const [status] = await within("the end of the demonstration", this.#ended);
      const left = await this.#left();
      return { status, left, kept, folders: folders.filter((folder) => existsSync(folder)) };
    } finally {
      this.#child.kill("SIGKILL");
    }
  }

  /** Lets go on what a group has stopped. */
  goOn() {
    for (const id of descendants(this.#child.pid).keys()) {
      try {
        process.kill(id, "SIGCONT");
      } catch {
        // It has ended meanwhile.
      }
    }
  }

  /** What is still there of its processes, once each had time to go. */
  async #left() {
    const left = () => {
      const alive = descendants(undefined);
      return [...this.processes]
        .filter(([id, command]) => alive.get(id) === command)
        .map(([, command]) => command);
    };
    await until("the end of every process", () => left().length === 0).catch(() => undefined);
    return left();
  }
}

/** All processes below one, or all that there are, with their command lines. */
function descendants(ancestor) {
  const all = processes();
  if (ancestor === undefined) return new Map(all.map(({ id, command }) => [id, command]));
  const found = new Map();
  const add = (parent) => {
    for (const { id, command } of all.filter((process) => process.parent === parent)) {
      found.set(id, command);
      add(id);
    }
  };
  add(ancestor);
  return found;
}

/** Small systems have no `ps`, and others no /proc. */
function processes() {
  if (!existsSync("/proc/self/stat")) {
    const listed = execFileSync("ps", ["-A", "-o", "pid=,ppid=,args="], {
      encoding: "utf8",
      maxBuffer: 1e8,
    });
    const rows = listed.split("\n").map((line) => /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line));
    return rows
      .filter((row) => row !== null && !row[3].startsWith("ps "))
      .map(([, id, parent, command]) => ({ id: Number(id), parent: Number(parent), command }));
  }
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, "utf8");
        const command = readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " ").trim();
        // The name in brackets may hold anything; behind it come the state and the parent.
        const [, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
        // What has ended and is not yet waited for has no command line.
        return command === "" ? [] : [{ id: Number(name), parent: Number(parent), command }];
      } catch {
        // It has ended meanwhile.
        return [];
      }
    });
}

/** The demonstration's database, as the owner of the server on which it was made. */
async function connect() {
  const url = new URL(process.env.MAILROOM_TEST_DATABASE_URL);
  const server = {
    host: decodeURIComponent(url.hostname),
    port: Number(url.port),
    user: url.username,
  };
  const admin = new pg.Client({ ...server, database: "postgres" });
  await admin.connect();
  const newest =
    "SELECT datname FROM pg_database WHERE datname LIKE 'mailroom_test_%' ORDER BY " +
    "oid DESC LIMIT 1";
  const [{ datname: name }] = (await admin.query(newest)).rows;
  await admin.end();
  const pool = new pg.Pool({ ...server, database: name, max: 1 });
  // A test ends its connections.
  pool.on("error", () => undefined);
  return { name, server, pool };
}

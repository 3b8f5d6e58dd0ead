// Bun's SQL, which no other runtime has: elsewhere this topic runs itself on Bun.

import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

import * as programs from "../runtimes/programs.mjs";
import { ofSql } from "./of_sql.mjs";

const MAIN = fileURLToPath(new URL("main.mjs", import.meta.url));

/** In another runtime: the same tests on Bun, as one of this report. */
export async function* elsewhere(tarball, folder) {
  yield [
    "all tests of its SQL pass there",
    async () => {
      const running = spawn(programs.bun(), [MAIN, tarball, `${folder}-bun`, "bun"], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      const ended = new Promise((resolve) => running.on("exit", resolve));
      const printed = await text(running.stdout);
      if ((await ended) !== 0 || !printed.includes("bun, effects")) throw new Error(printed);
    },
  ];
}

export async function open({ server }, { bunSql: adapter, createMailroom }) {
  const { SQL } = globalThis.Bun;
  const made = [];
  const connect = (more = {}) => {
    const { host: hostname, port, user: username, database } = server;
    const settings = { adapter: "postgres", hostname, port, username, database, max: 10, ...more };
    const sql = new SQL(settings);
    made.push(sql);
    return sql;
  };
  const closed = connect();
  await closed.close();
  return ofSql({
    sql: connect(),
    away: {
      "a port where nobody listens": connect({ port: 1 }),
      "a client that is closed": closed,
      "a role that may not log in": connect({ username: "application" }),
    },
    adapter,
    createMailroom,
    end: () => Promise.all(made.map((sql) => sql.close())),
  });
}

// The store in PostgreSQL, by either client, on the server that the environment names.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import pg from "pg";
import postgresJs from "postgres";

import { rejection, same } from "../runtimes/suite/expect.mjs";
import { freshLinks } from "./links.mjs";
import { interruptions, threeEffects } from "./interruptions.mjs";
import { ofChecks, outcomes } from "./outcomes.mjs";
import { acrossProcesses } from "./processes.mjs";
import { CuttingProxy } from "./proxy.mjs";
import { redeeming } from "./redeeming.mjs";

/** How each client connects: the client of the store, how it runs a statement, how it ends. */
const CLIENTS = {
  pg(server) {
    const pool = new pg.Pool({ ...server, max: 20 });
    pool.on("error", () => {});
    return {
      client: pool,
      run: async (text) => (await pool.query(text)).rows,
      end: () => pool.end(),
    };
  },
  "postgres.js"({ host, port, user, database, options }) {
    const connection = options === undefined ? {} : { options };
    const sql = postgresJs({ host, port, user, database, connection, max: 20, onnotice() {} });
    // Short: what is cut off is nobody's any more.
    return { client: sql, run: (text) => sql.unsafe(text), end: () => sql.end({ timeout: 1 }) };
  },
};

/** What an error says, and what its causes say. */
function messages(error) {
  return error instanceof Error ? `${error.message} < ${messages(error.cause)}` : "";
}

/** So many rows fit into the namespace `small`. */
const ROOM = 200;

/** What a server answers whose disk is full, without filling that of the machine. */
const LITTLE_ROOM = `
  CREATE OR REPLACE FUNCTION mailroom_little_room() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF (SELECT count(*) FROM mailroom_used_tokens WHERE namespace = 'small') >= ${ROOM} THEN
      RAISE disk_full USING MESSAGE = 'could not extend file';
    END IF;
    RETURN NEW;
  END $$;
  CREATE TRIGGER little_room BEFORE INSERT ON mailroom_used_tokens
    FOR EACH ROW WHEN (NEW.namespace = 'small') EXECUTE FUNCTION mailroom_little_room()`;

export async function run({ report, load, folder, installed }) {
  const { PGHOST: host, PGPORT: port, PGUSER: user, PGDATABASE: database } = process.env;
  if (host === undefined) {
    report.missing(
      "PostgreSQL",
      "no server is named by PGHOST; `cargo xtask test stores` starts one",
    );
    return;
  }
  const server = { host, port: Number(port), user, database };
  const verifierPackage = load(".");
  const { checkStore } = load("conformance");
  const { createPostgresStore, TABLE } = load("stores/postgres");
  const subject = { errors: load("errors") };
  await report.run("the pool of the REFERENCE", () => outcomes(endedConnections(installed)));

  for (const [by, connect] of Object.entries(CLIENTS)) {
    const { client, run, end } = connect(server);
    const away = connect({ ...server, host: "/nowhere" });
    const [{ server_version: version }] = await run("SHOW server_version");
    const title = `PostgreSQL ${version} by ${by}`;
    await run("DROP TABLE IF EXISTS mailroom_used_tokens");
    await report.run(`${title}, without its table`, () =>
      outcomes([
        [
          "a store without its table denies, and says how to make it",
          async () => {
            const { key, activation } = freshLinks();
            const store = createPostgresStore({ client, namespace: "mailroom" });
            const { redeem } = verifierPackage.createGuard({
              verifier: verifierPackage.createVerifier({ keys: key }),
              store,
              storeTimeout: 60,
            });
            const error = await rejection(subject, "ERR_STORE_UNAVAILABLE", "no table", () =>
              redeem(activation, { action: "activate" }),
            );
            same(/run the statements of TABLE/.test(messages(error)), true, messages(error));
          },
        ],
      ]),
    );
    await run(TABLE);
    await run(TABLE);
    await run(LITTLE_ROOM);
    await report.run(`${title}, conformance`, async () =>
      ofChecks(
        await checkStore({
          store: createPostgresStore({ client, namespace: "conformance" }),
          unreachable: createPostgresStore({ client: away.client, namespace: "conformance" }),
          small: createPostgresStore({ client, namespace: "small" }),
          smallLimit: 2 * ROOM,
        }),
      ),
    );
    if (by === "pg") {
      const isolated = connect({
        ...server,
        options: "-c default_transaction_isolation=serializable",
      });
      await report.run(`${title}, conformance where transactions are serializable`, async () =>
        ofChecks(
          await checkStore({
            store: createPostgresStore({ client: isolated.client, namespace: "isolated" }),
          }),
          ["errors", "full"],
        ),
      );
      await isolated.end();
    }
    const makeStore = () => createPostgresStore({ client, namespace: "redeeming" });
    await report.run(`${title}, redeeming`, () =>
      outcomes(redeeming({ ...verifierPackage, ...load("handler") }, freshLinks(), makeStore)),
    );
    await report.run(`${title}, rows`, () =>
      outcomes(rows(subject, createPostgresStore, client, run)),
    );
    if (by === "pg") {
      await report.run(`${title}, processes`, () =>
        outcomes(acrossProcesses(folder, "postgres", server)),
      );
    }
    await interrupted({
      report,
      verifierPackage,
      createPostgresStore,
      title,
      server,
      connect,
      direct: client,
    });
    await Promise.all([end(), away.end()]);
  }
}

/** What an application does whose server ends its connections, by the pool that is documented. */
function endedConnections(installed) {
  const document = readFileSync(join(installed, "REFERENCE.md"), "utf8");
  const [pool] = /^const pool = new Pool.*?(?=^export const mailroom)/ms.exec(document) ?? [""];
  const survives = () => {
    // With the time that a busy machine takes to connect.
    const program = `import pg, { Pool } from "pg";
${pool.replace("Millis: 5_000", "Millis: 60_000")}
const other = new pg.Client();
await other.connect();
const client = await pool.connect();
const { rows: [{ pid }] } = await client.query("SELECT pg_backend_pid() AS pid");
const ended = () => new Promise((resolve) => client.once("end", resolve));
const end = async () => {
  const told = ended();
  await other.query("SELECT pg_terminate_backend($1)", [pid]);
  await told;
};
client.release();
await end();
const { rows } = await pool.query("SELECT 'goes on' AS said");
console.log(rows[0].said);
await other.end();
await pool.end();`;
    const said = execFileSync(process.execPath, ["--input-type=module", "-e", program], {
      cwd: fileURLToPath(new URL(".", import.meta.url)),
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });
    same(said, "goes on\n", "what the application says");
  };
  return [
    [
      "an application goes on when the server ends a connection that nobody uses",
      async () => survives(),
    ],
  ];
}

const [PARSE, BIND] = ["P", "B"].map((type) => type.charCodeAt(0));

/**
 * A client as it is by default, through a proxy that cuts. The server finishes a statement whose
 * client is gone.
 */
async function interrupted({
  report,
  verifierPackage,
  createPostgresStore,
  title,
  server,
  connect,
  direct,
}) {
  const { host, port } = server;
  // Either client sends a statement as one or two messages, each of which has an answer.
  const isCommand = ([type]) => type === PARSE || type === BIND;
  // A reset ends a program that uses postgres.js: it rejects a promise that nobody has.
  const resets = title.endsWith("pg");
  const proxy = await CuttingProxy.start({ path: `${host}/.s.PGSQL.${port}` }, isCommand, {
    resets,
  });
  const { client, end } = connect({ ...server, host: "127.0.0.1", port: proxy.port });
  const stores = [client, direct].map((one) =>
    createPostgresStore({ client: one, namespace: "interrupted" }),
  );
  await report.run(`${title}, connections that are cut`, () =>
    outcomes(interruptions(verifierPackage, freshLinks, proxy, ...stores)),
  );
  await report.run(`${title}, a release that comes again`, () =>
    outcomes(threeEffects(verifierPackage, freshLinks, proxy, ...stores)),
  );
  await end();
  await proxy.end();
}

function* rows(subject, createPostgresStore, client, run) {
  const id = (number) => new Uint8Array(16).fill(number);
  const owner = id;
  const now = () => Math.floor(Date.now() / 1000);

  yield [
    "rows that mean nothing any more are deleted in passing",
    async () => {
      await run("DELETE FROM mailroom_used_tokens");
      const store = createPostgresStore({ client, namespace: "rows" });
      await Promise.all(
        Array.from({ length: 50 }, (_, number) => store.consume(id(number), now() + 60, owner(1))),
      );
      await run("UPDATE mailroom_used_tokens SET remember_until = now() - interval '1 second'");
      for (let number = 100; number < 125; number += 1) {
        same(await store.consume(id(number), now() + 60, owner(1)), true, `use ${number}`);
      }
      const [{ count }] = await run("SELECT count(*)::integer AS count FROM mailroom_used_tokens");
      same(count, 25, "rows");
    },
  ];
  yield [
    "a row that is over is a new one, with its tries and its use",
    async () => {
      const store = createPostgresStore({ client, namespace: "over" });
      await store.attempt(id(1), now() + 60, owner(1));
      await store.attempt(id(1), now() + 60, owner(2));
      await store.consume(id(1), now() + 60, owner(1));
      await run("UPDATE mailroom_used_tokens SET remember_until = now() - interval '1 second'");
      same(await store.attempt(id(1), now() + 60, owner(3)), 1, "the first try");
      same(await store.consume(id(1), now() + 60, owner(3)), true, "the first use");
      same(await store.consume(id(1), now() + 60, owner(4)), false, "the second use");
      same(await store.attempt(id(1), now() + 60, owner(4)), 2, "the second try");
    },
  ];
  yield [
    "the server's clock decides, whatever that of this process says",
    async () => {
      const { now: real } = Date;
      const store = createPostgresStore({ client, namespace: "clock" });
      const until = now() + 600;
      Date.now = () => real() + 3_600_000;
      try {
        same(await store.consume(id(2), until, owner(1)), true, "a time that is over here only");
      } finally {
        Date.now = real;
      }
      await rejection(subject, "ERR_TOKEN_EXPIRED", "a time that is over there", () =>
        store.consume(id(3), now() - 1, owner(1)),
      );
    },
  ];
  yield [
    "two namespaces know nothing of each other",
    async () => {
      for (const namespace of ["one", "two"]) {
        const store = createPostgresStore({ client, namespace });
        same(await store.consume(id(4), now() + 60, owner(1)), true, namespace);
        same(await store.attempt(id(4), now() + 60, owner(1)), 1, namespace);
      }
    },
  ];
  for (const options of [
    { client },
    { client, namespace: "a b" },
    { client: {}, namespace: "mailroom" },
    { client: "postgresql:///", namespace: "mailroom" },
    { namespace: "mailroom" },
    { client, namespace: "mailroom", table: "t" },
  ]) {
    yield [
      `the options ${Object.keys(options)} are refused`,
      () =>
        rejection(subject, "ERR_INVALID_ARGUMENT", "options", async () =>
          createPostgresStore(options),
        ),
    ];
  }
}

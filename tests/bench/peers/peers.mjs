// Drains no-op jobs from another queue in PostgreSQL. Started by `cargo xtask bench drain` with the
// URL of a database in DATABASE_URL; prints one line of JSON. The time is that from the start of
// the workers, in a process that runs already, to the start of the last job: what a queue does
// before and after is not counted.

import { EventEmitter } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { PgBoss } from "pg-boss";

// As many jobs at once as graphile-worker's own measurement has in each process.
const AT_ONCE = 24;

/** How long all jobs may take to run, and then to be completed. */
const TIMEOUT_MS = 120_000;

const { values } = parseArgs({ options: { peer: { type: "string" }, jobs: { type: "string" } } });
const connectionString = process.env.DATABASE_URL;
const jobs = Number(values.jobs);
const peers = {
  graphile_worker: () => graphileWorker({}),
  graphile_worker_batched: () =>
    graphileWorker({ localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 }),
  pg_boss: () => pgBoss(),
};
const drain = peers[values.peer];
if (!drain || !Number.isSafeInteger(jobs) || jobs < 1 || !connectionString) {
  throw new Error(
    `usage: DATABASE_URL=… node peers.mjs --jobs N --peer ${Object.keys(peers).join("|")}`,
  );
}
const milliseconds = await drain();
console.log(JSON.stringify({ peer: values.peer, jobs, milliseconds }));

/** Counts jobs, each of which must run once. */
function counter() {
  const seen = new Set();
  let finish;
  let fail;
  const finished = new Promise((resolve, reject) => {
    finish = resolve;
    fail = reject;
  });
  const timer = setTimeout(() => fail(new Error(`${seen.size} of ${jobs} jobs ran`)), TIMEOUT_MS);
  return {
    finished,
    ran(number) {
      if (seen.has(number)) {
        fail(new Error(`job ${number} ran twice`));
      }
      seen.add(number);
      if (seen.size === jobs) {
        clearTimeout(timer);
        finish(performance.now());
      }
    },
  };
}

async function sql(statement, parameters) {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    return (await client.query(statement, parameters)).rows;
  } finally {
    await client.end();
  }
}

/**
 * Waits until every job is completed. A worker that is stopped
 * before gives up what it has not yet completed.
 */
async function untilEmpty(count) {
  const end = performance.now() + TIMEOUT_MS;
  for (;;) {
    const [{ left }] = await sql(count);
    if (Number(left) === 0) {
      return;
    }
    if (performance.now() > end) {
      throw new Error(`${left} jobs are left in the database`);
    }
    await sleep(50);
  }
}

async function graphileWorker(worker) {
  const logger = {
    scope: () => logger,
    error: console.error,
    warn: console.error,
    info() {},
    debug() {},
  };
  const utils = await makeWorkerUtils({ connectionString, logger });
  await utils.migrate();
  await utils.release();
  // In one transaction its triggers would take a time that grows with the square of the number.
  for (let start = 1; start <= jobs; start += 1000) {
    await sql(
      "SELECT graphile_worker.add_job('noop', json_build_object('number', " +
        "n)) FROM generate_series($1::int, $2::int) AS n",
      [start, Math.min(start + 999, jobs)],
    );
  }
  await sql("VACUUM ANALYZE");
  await sql("CHECKPOINT");
  const { finished, ran } = counter();
  const started = performance.now();
  const runner = await run({
    logger,
    noHandleSignals: true,
    events: new EventEmitter(),
    taskList: { noop: async (payload) => ran(payload.number) },
    preset: {
      // One connection a job and one to listen with;
      // the default of ten would make jobs wait for connections.
      worker: { connectionString, concurrentJobs: AT_ONCE, maxPoolSize: AT_ONCE + 1, ...worker },
    },
  });
  const ended = await finished;
  await untilEmpty("SELECT count(*) AS left FROM graphile_worker.jobs");
  await runner.stop();
  return ended - started;
}

async function pgBoss() {
  const boss = new PgBoss({ connectionString, max: AT_ONCE, supervise: false, schedule: false });
  boss.on("error", console.error);
  await boss.start();
  await boss.createQueue("noop");
  const data = Array.from({ length: jobs }, (_, index) => ({ data: { number: index + 1 } }));
  for (let start = 0; start < jobs; start += 1000) {
    await boss.insert("noop", data.slice(start, start + 1000));
  }
  await sql("VACUUM ANALYZE");
  await sql("CHECKPOINT");
  const { finished, ran } = counter();
  const started = performance.now();
  // In its default settings it takes one job every two seconds;
  // these are the ones that it offers for speed.
  await boss.work(
    "noop",
    { batchSize: 100, burstWhenBatchFull: true, localConcurrency: 4, pollingIntervalSeconds: 0.5 },
    async (batch) => {
      for (const job of batch) {
        ran(job.data.number);
      }
    },
  );
  const ended = await finished;
  await untilEmpty(
    "SELECT count(*) AS left FROM pgboss.job WHERE name = 'noop' AND state <> 'completed'",
  );
  await boss.stop({ graceful: true });
  await sql("DELETE FROM pgboss.job WHERE name = 'noop'");
  return ended - started;
}

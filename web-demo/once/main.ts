// `cargo xtask demo --once`: 25 people register and 10 of them request a recovery, the collector
// prints signed lines, and two verifiers that share no code judge every token. Succeeds only if
// every token came once and both accept it.

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

import { Pool } from "pg";

import {
  type Access,
  databaseVariables,
  type Role,
  required,
  withDatabase,
} from "../stage/database.ts";
import { inherited, SUPERVISE } from "../stage/part.ts";
import { ending, hurrying } from "../stage/signals.ts";
import { type Item, parseLine } from "./line.ts";
import { activate, madeTokens, PEOPLE, type Person, register, requestRecovery } from "./people.ts";
import { judge, type Verdicts } from "./verifiers.ts";

const RECOVERIES = 10;

/** Between two things that people do, and how long the last token may take, in milliseconds. */
const PACE = 200;
const TIMEOUT = 120_000;

const program = required("MAILROOM_TEST_PROGRAM");
const key = randomBytes(32).toString("hex");

/** What came, by the secret in hexadecimal. */
const received = new Map<string, { readonly item: Item; readonly verdicts: Verdicts }>();
/** When each token was requested, and who can request a recovery. */
const requested = new Map<string, number>();
const active: Person[] = [];
let [registered, recoveries, lines, slowest, faults] = [0, 0, 0, 0, 0];

try {
  console.log("starting a throwaway PostgreSQL ...");
  await withDatabase(demonstrate);
} catch (error) {
  fault(error instanceof Error ? error.message : String(error));
}
process.exit(faults === 0 ? 0 : 1);

async function demonstrate(access: Access): Promise<void> {
  const [owner, application] = [pool(access, access.owner), pool(access, access.application)];
  console.log("starting `mailroom collect` with a key made for this run\n");
  const collector = spawn("/bin/sh", [SUPERVISE, program, "collect"], {
    env: {
      ...inherited(),
      ...databaseVariables(access, access.collector),
      MAILROOM_SECRET_KEY: key,
      MAILROOM_BATCH_TIMEOUT: "1000ms",
      // Its role may not prune.
      MAILROOM_RETENTION: "off",
    },
    // Ctrl-C is for this process, which then ends the collector in order.
    detached: true,
    stdio: ["pipe", "pipe", "pipe", "ignore"],
  }) as ChildProcessWithoutNullStreams;
  const ended = once(collector, "close");
  createInterface({ input: collector.stderr }).on("line", (line) =>
    console.log(colour(2, `  log  ${line}`)),
  );
  const read = (async () => {
    for await (const line of createInterface({ input: collector.stdout }))
      await receive(line, application);
  })();
  // When the collector has ended, or a line is wrong, there is nothing to wait for.
  read
    .catch(() => undefined)
    .finally(() => {
      ending.abort();
      hurrying.abort();
    });

  await act(application);
  const count = async () => (await madeTokens(owner)).length;
  for (
    const end = Date.now() + TIMEOUT;
    Date.now() < end && !hurrying.signal.aborted;
    await sleep(PACE)
  ) {
    if (received.size >= (await count())) break;
  }
  collector.stdin.end();
  await read;
  const [status] = await ended;
  if (status !== 0) fault(`the collector ended with status ${status}`);
  await compare(owner);
  await Promise.all([owner.end(), application.end()]);
}

function pool({ database: { host, port, name } }: Access, role: Role): Pool {
  return new Pool({ ...role, host, port, database: name, max: 1 });
}

/**
 * Somebody requests a recovery, if anybody can and most have not yet; otherwise somebody registers.
 */
async function act(application: Pool): Promise<void> {
  while (!ending.signal.aborted && (registered < PEOPLE.length || recoveries < RECOVERIES)) {
    const person = PEOPLE[registered];
    const isTurn = recoveries * 2 < registered || person === undefined;
    const recovering = isTurn && recoveries < RECOVERIES ? active.shift() : undefined;
    if (recovering !== undefined) {
      requested.set(`recover ${recovering.login}`, Date.now());
      await requestRecovery(application, recovering);
      recoveries += 1;
      happened(`${recovering.name} requests a recovery`);
    } else if (person !== undefined) {
      requested.set(`activate ${person.login}`, Date.now());
      await register(application, person);
      registered += 1;
      happened(`${person.name} registers as ${person.email}`);
    }
    await sleep(PACE);
  }
}

/** Judges every token of a line. */
async function receive(line: string, application: Pool): Promise<void> {
  const items = parseLine(line);
  lines += 1;
  console.log(
    `  ${colour(33, "out")}  line ${lines}: tokens: ${items.length}, bytes: ${line.length}`,
  );
  if (lines === 1) {
    console.log(line);
    console.log(
      colour(
        2,
        "       A program that sends mail reads lines like this one, with five fields a token.",
      ),
    );
    console.log(
      colour(
        2,
        "       Below each token has a row: action, login, token (shortened), code, verdicts.",
      ),
    );
  }
  for (const item of items) {
    const { action, login, token, code } = item;
    const wait = Date.now() - (requested.get(`${action} ${login}`) ?? Date.now());
    slowest = Math.max(slowest, wait);
    const verdicts = await judge(program, key, item);
    const ends = `${token.slice(0, 8)}…${token.slice(-8)}`;
    console.log(
      `       ${action.padEnd(8)}  ${login.padEnd(18)}  ${ends}  ${code}  ${worded(verdicts)}`,
    );
    const secret = Buffer.from(token, "base64url").toString("hex", 0, 32);
    if (received.has(secret)) fault("this token came twice");
    received.set(secret, { item, verdicts });
    const person = PEOPLE.find((other) => other.login === login);
    if (action === "activate" && verdicts.mailroom && verdicts.node && person !== undefined) {
      await activate(application, item);
      active.push(person);
      happened(`${person.name} opens the activation link: the account is active`);
    }
  }
}

/**
 * Compares what came with what the database has made,
 * and shows that the verifiers do not accept everything.
 */
async function compare(owner: Pool): Promise<void> {
  const made = await madeTokens(owner);
  for (const token of made) {
    const whose = `a token (${token.action}) for ${token.login}`;
    const found = received.get(token.secret);
    const fields = ["action", "email", "login", "code"] as const;
    if (found === undefined) fault(`${whose} did not come`);
    else if (fields.some((field) => found.item[field] !== token[field]))
      fault(`${whose} has other fields`);
    else if (!found.verdicts.mailroom || !found.verdicts.node)
      fault(`${whose} was not verified twice`);
  }
  if (received.size > made.length) fault("tokens came that the database did not make");
  const valid = (name: keyof Verdicts) =>
    [...received.values()].filter(({ verdicts }) => verdicts[name]).length;
  const requested = `${registered} accounts registered, ${recoveries} recoveries requested`;
  const seconds = (slowest / 1000).toFixed(1);
  console.log(`
${requested}: the database made ${made.length} tokens
${received.size} tokens came in ${lines} lines, the slowest ${seconds} s after it was requested
valid: ${valid("mailroom")} by mailroom verify, ${valid("node")} by node:crypto`);

  const [sample] = received.values();
  if (sample !== undefined) {
    const { token } = sample.item;
    const forged = { ...sample.item, token: (token.startsWith("A") ? "B" : "A") + token.slice(1) };
    const verdicts = await judge(program, key, forged);
    console.log(`one character of a link changed: ${worded(verdicts)}`);
    if (verdicts.mailroom || verdicts.node) fault("a forged link is accepted");
  }
  const well = "Every token that the database made came once and was verified twice.";
  console.log(
    faults === 0 ? colour(32, well) : colour(31, `Faults: ${faults}, marked with !!! above.`),
  );
}

function happened(text: string): void {
  console.log(`  ${colour(36, "in ")}  ${text}`);
}

function fault(text: string): void {
  faults += 1;
  console.log(`  ${colour(31, "!!!")}  ${text}`);
}

function worded(verdicts: Verdicts): string {
  const word = (valid: boolean) => (valid ? colour(32, "valid") : colour(31, "not valid"));
  return `mailroom verify: ${word(verdicts.mailroom)}  node:crypto: ${word(verdicts.node)}`;
}

function colour(code: number, text: string): string {
  return process.stdout.isTTY ? `\x1b[${code}m${text}\x1b[0m` : text;
}

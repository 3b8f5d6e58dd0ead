// Applications with links: their database is of this process, and those that Node runs are built
// for production.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join } from "node:path";

import { built } from "../handlers/builds.mjs";
import { served } from "../handlers/sites.mjs";
import { freePort } from "../ports.mjs";
import { write } from "../runtimes/consumer.mjs";
import * as programs from "../runtimes/programs.mjs";
import { KEPT_OPEN } from "../waiting.mjs";
import { key } from "./server.mjs";

const ASKS = `const digits = Array.from(secret, (byte) => byte.toString(16).padStart(2, "0"));
  const answer = await ask(digits.join(""));
  return answer.text();`;

/** The module `database.js`, of which the documents say that everybody has his own. */
export const DATABASE = `const ask = (body) =>
  fetch(process.env.DATABASE, { method: "POST", body });

export async function redeem({ secret }) {
  ${ASKS}
}
`;

/** A Worker reaches this machine by a binding alone. */
export const DATABASE_OF_WORKER = `import { env } from "cloudflare:workers";

const ask = (body) => env.DATABASE.fetch("http://database/", { method: "POST", body });

export async function redeem({ secret }) {
  ${ASKS}
}
`;

/** The application's database: uses a secret once. `use` gets its address and what was used. */
export async function withDatabase(use) {
  const used = [];
  const server = createServer(KEPT_OPEN, async (request, response) => {
    let secret = "";
    for await (const chunk of request) secret += chunk;
    const verdict = used.includes(secret) ? "used" : "ok";
    if (verdict === "ok") used.push(secret);
    response.end(verdict);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    await use(`127.0.0.1:${server.address().port}`, used);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/** Writes the files of an application, which are given by their names. */
export function writeApplication(place, files) {
  const described = JSON.stringify({ name: "site", private: true, type: "module" });
  for (const [name, text] of Object.entries({ ...files, "package.json": described })) {
    mkdirSync(join(place, dirname(name)), { recursive: true });
    write(place, name, text);
  }
}

/**
 * Builds what was written, without its key, and runs it.
 *
 * @param site what builds and what starts it, by another program than Node if it names one
 * @param use gets its address
 */
export async function runApplication(place, site, database, use) {
  const node = programs.NODES.at(-1).path();
  if (site.build) built(place, site.build[0], site.build.slice(1), node);
  const program = site.program?.() ?? node;
  const port = await freePort();
  const env = {
    ...{
      PATH: process.env.PATH,
      NODE_ENV: "production",
      NO_COLOR: "1",
      HOST: "127.0.0.1",
      PORT: String(port),
    },
    ...{
      MAILROOM_SECRET_KEY: key,
      DATABASE: `http://${database}`,
      ORIGIN: `http://127.0.0.1:${port}`,
    },
  };
  const server = spawn(program, site.start, {
    cwd: place,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  return served(server, /Listening|Ready|serve/i, use);
}

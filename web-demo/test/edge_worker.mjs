// The built edge in workerd, with Durable Objects that fail when they are told to, and the requests
// of a visitor to it.

import { randomBytes } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { write } from "../../verifier-wasm/npm/test/runtimes/consumer.mjs";
import { version, workerd } from "../../verifier-wasm/npm/test/runtimes/programs.mjs";
import { withWorker } from "../../verifier-wasm/npm/test/runtimes/workerd.mjs";

export const FORM = "application/x-www-form-urlencoded";
const TYPE = { "Content-Type": FORM };
export const RIGHT = "01234";
export const WRONG = ["00000", "11111", "22222", "33333", "44444", "55555", "66666"];

/** The built Worker, its objects asking the origin whether to fail. */
const MAIN = `
import { UsedToken as Used } from "./worker.js";
export { default } from "./worker.js";

const faulty = (Real) => class extends Real {
  constructor(state, env) {
    super(state, env);
    this.origin = env.ORIGIN;
    this.storage = state.storage;
  }
  async fetch(request) {
    const { pathname } = new URL(request.url);
    const faults = await (await this.origin.fetch("http://origin/faults")).json();
    try {
      return await this.answer(request, pathname, faults);
    } finally {
      await this.origin.fetch("http://origin/done?" + new URLSearchParams({ pathname }));
    }
  }
  async answer(request, pathname, faults) {
    if (faults.includes(pathname)) throw new Error("the object is broken");
    if (faults.includes("slow " + pathname)) await scheduler.wait(150_000);
    const answer = await super.fetch(request);
    if (pathname === "/withdraw") {
      const { size } = await this.storage.list();
      const what = size + " entries, alarm " + (await this.storage.getAlarm() !== null);
      await this.origin.fetch("http://origin/kept?" + new URLSearchParams({ what }));
    }
    if (faults.includes("late " + pathname)) throw new Error("the answer of the object is lost");
    return answer;
  }
};
export class UsedToken extends faulty(Used) {}
`;

export function textsOf(signer, origin) {
  const { secretKeys, publicKeys } = signer;
  return {
    MAILROOM_SECRET_KEYS: secretKeys.join(" "),
    MAILROOM_PUBLIC_KEYS: publicKeys.join(" "),
    ORIGIN_PASSWORD: origin.password,
    SERVE_TOKEN: origin.bearer,
    V1_RECOVERIES: "allow",
  };
}

/** The secret of a v2 or v3 token with 32 bytes behind it, as long as a token of v1. */
export function asV1(token) {
  return Buffer.concat([
    Buffer.from(token, "base64url").subarray(14, 46),
    randomBytes(32),
  ]).toString("base64url");
}

export async function withEdge({ folder, site, origin, texts, log }, use) {
  const program = workerd();
  const own = join(folder, "edge");
  rmSync(own, { recursive: true, force: true });
  mkdirSync(own, { recursive: true });
  for (const name of readdirSync(join(site, "edge")))
    copyFileSync(join(site, "edge", name), join(own, name));
  write(own, "main.mjs", MAIN);
  const servers = { ORIGIN: origin.address, SERVE: origin.address, ASSETS: origin.address };
  const objects = { USED_TOKENS: "UsedToken" };
  const bindings = { texts, servers };
  const worker = {
    program,
    folder: own,
    main: "main.mjs",
    date: version(program),
    bindings,
    objects,
    log,
  };
  await withWorker(worker, (url) => use(new Edge(url)));
}

class Edge {
  url;

  constructor(url) {
    this.url = url;
  }

  async open(page, token) {
    return read(await fetch(`${this.url}/${page}?${new URLSearchParams({ token })}`));
  }

  async press(page, token, code) {
    return read(
      await fetch(`${this.url}/${page}`, {
        method: "POST",
        headers: TYPE,
        body: fieldsOf(token, code),
      }),
    );
  }

  /**
   * Ends the connection when the origin is asked, by a reset, which is what workerd takes for a
   * visitor who has gone.
   */
  async pressAndLeave(page, token, code, isAsked) {
    const sent = request(`${this.url}/${page}`, { method: "POST", headers: TYPE });
    sent.on("error", () => undefined);
    sent.end(fieldsOf(token, code));
    await isAsked();
    sent.socket.resetAndDestroy();
  }
}

function fieldsOf(token, code) {
  return new URLSearchParams(code === undefined ? { token } : { token, code }).toString();
}

async function read(response) {
  const page = await response.text();
  const title = /<h1>([^<]*)/.exec(page)?.[1];
  const text = /<p role="alert" class="alert">([^<]*)/.exec(page)?.[1];
  return { status: response.status, title, text };
}

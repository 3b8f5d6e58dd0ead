// Two verifiers of v1 tokens that share no code: `mailroom verify`, and Node's cryptography by the
// description of the format.

import { spawn } from "node:child_process";
import { createHmac, timingSafeEqual } from "node:crypto";
import { once } from "node:events";

import { inherited } from "../stage/part.ts";
import type { Item } from "./line.ts";

/** Who accepts a token. */
export interface Verdicts {
  readonly mailroom: boolean;
  readonly node: boolean;
}

export async function judge(program: string, key: string, item: Item): Promise<Verdicts> {
  return { mailroom: await judgeByMailroom(program, key, item), node: judgeByNode(key, item) };
}

async function judgeByMailroom(
  program: string,
  key: string,
  { action, token, code }: Item,
): Promise<boolean> {
  const codes = action === "recover" ? ["--code", code] : [];
  const child = spawn(program, ["verify", "--action", action, ...codes, "-"], {
    env: { ...inherited(), MAILROOM_SECRET_KEY: key },
    stdio: ["pipe", "ignore", "pipe"],
    // Ctrl-C is for this process, which still needs the answer.
    detached: true,
  });
  let errors = "";
  child.stderr.on("data", (chunk) => {
    errors += chunk;
  });
  child.stdin.end(token);
  const [status] = await once(child, "close");
  if (status !== 0 && status !== 1)
    throw new Error(`\`mailroom verify\` ended with ${status}: ${errors}`);
  return status === 0;
}

function judgeByNode(key: string, { action, token, code }: Item): boolean {
  const bytes = Buffer.from(token, "base64url");
  const hmac = createHmac("sha256", Buffer.from(key, "hex"));
  hmac.update(`/${action}`).update(bytes.subarray(0, 32));
  if (action === "recover") hmac.update(code);
  return bytes.length === 64 && timingSafeEqual(bytes.subarray(32), hmac.digest());
}

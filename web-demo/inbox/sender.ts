// The collector's sender: reads a batch a line, delivers its mails, answers with a line. Ends when its input does.

import { createInterface } from "node:readline";

import { type Batch, deliver } from "./delivery.ts";

const inbox = process.env.DEMO_INBOX ?? "";

for await (const line of createInterface({ input: process.stdin })) {
  const settlement = await deliver(JSON.parse(line) as Batch, inbox);
  process.stdout.write(`${JSON.stringify(settlement)}\n`);
}

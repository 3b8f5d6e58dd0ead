// Ports for servers that have to be told theirs before they listen.

import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

const given = new Set();

/**
 * Below the ports that connections get, one of which could take it before the server is there, and
 * never given twice.
 * @param offsets further ports, this much higher, that have to be free as well
 */
export async function freePort(...offsets) {
  for (;;) {
    const port = randomInt(10_000, 20_000);
    const ports = [port, ...offsets.map((offset) => port + offset)];
    if (ports.some((one) => given.has(one))) continue;
    for (const one of ports) given.add(one);
    if ((await Promise.all(ports.map(isFree))).every(Boolean)) return port;
  }
}

async function isFree(port) {
  const server = createServer().listen(port, "127.0.0.1");
  try {
    await once(server, "listening");
  } catch {
    return false;
  }
  server.close();
  await once(server, "close");
  return true;
}

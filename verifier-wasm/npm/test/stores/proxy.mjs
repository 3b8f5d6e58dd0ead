// A proxy between a client and its server that cuts the connection at a command: before it arrives,
// or before its answer.

import { once } from "node:events";
import { connect, createServer } from "node:net";

export class CuttingProxy {
  #target;
  #isCommand;
  #resets;
  #server;
  #open = new Set();
  #fault;
  #refusing = false;
  /** The commands that came since the last `cut`, whatever became of them. */
  commands = 0;
  /** The connections that were cut since then. */
  cuts = 0;

  /**
   * @param {import("node:net").NetConnectOpts} target the server
   * @param {(bytes: Buffer) => boolean} isCommand whether what a client sent
   * at once is one that counts
   * @param {{ resets?: boolean }} options whether a connection is reset when it is cut,
   * instead of being closed
   */
  static async start(target, isCommand, { resets = true } = {}) {
    const proxy = new CuttingProxy();
    proxy.#target = target;
    proxy.#isCommand = isCommand;
    proxy.#resets = resets;
    proxy.#server = createServer((client) => proxy.#serve(client)).listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    return proxy;
  }

  get port() {
    return this.#server.address().port;
  }

  /**
   * Cuts at the command of this number, from 1: "before" it arrives,
   * or "after" the server has answered it.
   */
  cut(number, moment, { refuseAfterwards = false } = {}) {
    this.#fault = { number, moment, refuseAfterwards };
    this.commands = 0;
    this.cuts = 0;
  }

  /** Lets clients connect again. */
  accept() {
    this.#refusing = false;
  }

  async end() {
    for (const socket of this.#open) socket.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }

  #serve(client) {
    if (this.#refusing) {
      client.destroy();
      return;
    }
    const server = connect(this.#target);
    for (const socket of [client, server]) {
      this.#open.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        this.#open.delete(socket);
        client.destroy();
        server.destroy();
      });
    }
    let answerIsLost = false;
    const cut = () => {
      this.cuts += 1;
      this.#refusing = this.#fault.refuseAfterwards;
      this.#fault = undefined;
      if (this.#resets) client.resetAndDestroy();
      else client.destroy();
      server.destroy();
    };
    client.on("data", (bytes) => {
      if (this.#isCommand(bytes)) {
        this.commands += 1;
        if (this.commands === this.#fault?.number) {
          if (this.#fault.moment === "before") {
            cut();
            return;
          }
          answerIsLost = true;
        }
      }
      server.write(bytes);
    });
    server.on("data", (bytes) => {
      // The server has done it, and nobody hears.
      if (answerIsLost) cut();
      else client.write(bytes);
    });
  }
}

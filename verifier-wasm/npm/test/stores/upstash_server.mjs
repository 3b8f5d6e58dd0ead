// A stand-in for the REST service of Upstash: the part of its protocol that sends several commands
// at once, in front of a client of a real server.

import { once } from "node:events";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";

import { KEPT_OPEN } from "../waiting.mjs";

export class UpstashServer {
  #server;
  #port;
  /** The commands of each request. */
  requests = [];

  static async start(redis, token) {
    const server = new UpstashServer();
    server.#server = createServer(KEPT_OPEN, (request, response) => {
      server.#answer(redis, token, request).then(
        ([status, body]) =>
          response
            .writeHead(status, { "content-type": "application/json" })
            .end(JSON.stringify(body)),
        () => response.destroy(),
      );
    }).listen(0, "127.0.0.1");
    await once(server.#server, "listening");
    server.#port = server.#server.address().port;
    return server;
  }

  get port() {
    return this.#port;
  }

  get url() {
    return `http://127.0.0.1:${this.#port}`;
  }

  async end() {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, "close");
  }

  async #answer(redis, token, request) {
    const commands = await json(request);
    if (request.headers.authorization !== `Bearer ${token}`) {
      return [401, { error: "WRONGPASS invalid or missing auth token" }];
    }
    if (request.method !== "POST" || request.url !== "/pipeline")
      return [404, { error: "ERR no such path" }];
    this.requests.push(commands);
    const replies = [];
    // One after the other, and each whatever became of those before it.
    for (const words of commands) {
      replies.push(
        await redis.sendCommand(words).then(
          (result) => ({ result }),
          ({ message }) => ({ error: message }),
        ),
      );
    }
    return [200, replies];
  }
}

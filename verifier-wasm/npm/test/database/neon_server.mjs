// A stand-in for Neon's service that takes statements over HTTP, as its driver sends them: what it
// is given it runs on a real server.

import { once } from "node:events";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";

import pg from "pg";

import { KEPT_OPEN } from "../waiting.mjs";

const AS_TEXT = { getTypeParser: () => (value) => value };

export class NeonServer {
  #server;
  #pool;
  /** What was asked, in order: statements with their values. */
  asked = [];

  static async start(settings) {
    const server = new NeonServer();
    server.#pool = new pg.Pool({ ...settings, max: 4 });
    server.#server = createServer(KEPT_OPEN, (request, response) => {
      server.#answer(request).then(
        ([status, body]) =>
          response
            .writeHead(status, { "content-type": "application/json" })
            .end(JSON.stringify(body)),
        () => response.destroy(),
      );
    }).listen(0, "127.0.0.1");
    await once(server.#server, "listening");
    return server;
  }

  get url() {
    return `http://127.0.0.1:${this.#server.address().port}/sql`;
  }

  async end() {
    this.#server.close();
    this.#server.closeAllConnections();
    await this.#pool.end();
  }

  async #answer(request) {
    const { query, params } = await json(request);
    this.asked.push([query, ...params]);
    try {
      const { rows, fields, command, rowCount } = await this.#pool.query({
        text: query,
        values: params,
        rowMode: "array",
        types: AS_TEXT,
      });
      const described = fields.map(({ name, dataTypeID }) => ({ name, dataTypeID }));
      return [200, { command, rowCount, rows, fields: described, rowAsArray: true }];
    } catch ({ message, code, severity }) {
      return [400, { message, code, severity }];
    }
  }
}

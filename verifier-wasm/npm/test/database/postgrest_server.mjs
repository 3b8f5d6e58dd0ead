// A stand-in for PostgREST: its `/rpc`, in front of a real server. The keys are those of roles.

import { once } from "node:events";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";

import pg from "pg";

import { KEPT_OPEN } from "../waiting.mjs";

export class PostgrestServer {
  #server;
  #pool;
  #roles;

  /** `roles`: by key */
  static async start(settings, roles) {
    const server = new PostgrestServer();
    server.#roles = roles;
    server.#pool = new pg.Pool({ ...settings, max: 4 });
    server.#server = createServer(KEPT_OPEN, (request, response) => {
      server.#answer(request).then(
        ([status, body]) =>
          response
            .writeHead(status, { "content-type": "application/json; charset=utf-8" })
            .end(JSON.stringify(body)),
        () => response.destroy(),
      );
    }).listen(0, "127.0.0.1");
    await once(server.#server, "listening");
    return server;
  }

  get url() {
    return `http://127.0.0.1:${this.#server.address().port}/rest/v1`;
  }

  async end() {
    this.#server.close();
    this.#server.closeAllConnections();
    await this.#pool.end();
  }

  async #answer(request) {
    const { headers, url, method } = request;
    const given = Object.entries(await json(request));
    const [, name] = /^\/rest\/v1\/rpc\/(\w+)$/.exec(url) ?? [];
    const key = headers.authorization?.replace("Bearer ", "");
    const role = this.#roles[key];
    if (method !== "POST" || name === undefined) return [404, { message: "no such path" }];
    if (role === undefined || headers.apikey !== key)
      return [401, { code: "PGRST301", message: "JWSError JWSInvalidSignature" }];
    const list = given.map(([parameter], at) => `"${parameter}" => $${at + 1}`).join(", ");
    const client = await this.#pool.connect();
    try {
      await client.query("BEGIN");
      await client.query(`SET LOCAL ROLE ${role}`);
      const { rows } = await client.query(
        `SELECT to_json("${headers["content-profile"]}"."${name}"(${list})) AS answer`,
        given.map(([, value]) => value),
      );
      await client.query("COMMIT");
      return [200, rows[0].answer];
    } catch ({ code, message }) {
      await client.query("ROLLBACK");
      return [code === "42501" ? 403 : 400, { code, message, details: null, hint: null }];
    } finally {
      client.release();
    }
  }
}

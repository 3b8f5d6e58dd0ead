// Neon's own driver; its service is a stand-in.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { neon, neonConfig } from "@neondatabase/serverless";

import { freePort } from "../ports.mjs";
import { same } from "../runtimes/suite/expect.mjs";
import { NeonServer } from "./neon_server.mjs";

/** The one statement of REFERENCE.md: the use and what it is for. */
const REFERENCE = fileURLToPath(new URL("../../REFERENCE.md", import.meta.url));
const [, ONE_STATEMENT] = /^```sql\n(WITH used AS .*?)^```$/ms.exec(
  readFileSync(REFERENCE, "utf8"),
);

export async function open({ server }, { neon: adapter, createMailroom }) {
  const standIn = await NeonServer.start(server);
  const nowhere = `http://127.0.0.1:${await freePort()}/sql`;
  neonConfig.fetchEndpoint = (host) => (host === "nowhere" ? nowhere : standIn.url);
  const connect = (host) => neon(`postgresql://web:none@${host}/postgres`);
  const sql = connect("project.neon.example");
  return {
    client: sql,
    mailroom: createMailroom(adapter(sql)),
    away: { "a service that is not there": createMailroom(adapter(connect("nowhere"))) },
    end: () => standIn.end(),
    async *more({ scene, mailroom }) {
      yield [
        "one statement uses a link and does what it is for, or neither",
        async () => {
          const user = await scene.user();
          const { link, code } = await scene.link(mailroom, "recover", user);
          const press = async (typed) => {
            const secret = Buffer.from(link.secret).toString("hex");
            const [row] = await sql.query(ONE_STATEMENT, [secret, "recover", typed, false, null]);
            return row.verdict;
          };
          same(await press(code === "00000" ? "11111" : "00000"), "wrong_code", "a wrong code");
          same(await scene.isVerified(user.id), false, "not verified");
          same(await press(code), "ok", "the right one");
          same(await scene.isVerified(user.id), true, "verified");
          same(await press(code), "used", "once");
        },
      ];
    },
  };
}

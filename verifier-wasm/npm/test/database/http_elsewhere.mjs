// `http` on runtimes without TCP, and on the others: the topic `http` runs it on each.

import { copyFileSync } from "node:fs";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";

import { freePort } from "../ports.mjs";
import { resolveExport } from "../runtimes/exports.mjs";
import { resultsOf } from "../runtimes/program.mjs";
import * as programs from "../runtimes/programs.mjs";
import { same } from "../runtimes/suite/expect.mjs";
import { resultsOf as resultsOfWorker, withWorker } from "../runtimes/workerd.mjs";

const ENTRY = "mailroom-verifier/database";

/** Runs of a report: a title, and what comes of it there. */
export function* elsewhere({ scene, mailroom, folder, url, away, token }) {
  for (const [from, name] of [
    ["http_calls.mjs"],
    ["http_program.mjs"],
    ["http_worker.mjs"],
    ["../runtimes/suite/expect.mjs", "expect.mjs"],
    ["../stores/outcomes.mjs", "outcomes.mjs"],
  ]) {
    const source = fileURLToPath(new URL(from, import.meta.url));
    copyFileSync(source, join(folder, name ?? from));
  }
  const on = (run) => async () => {
    const { email, ...prepared } = await prepare(scene, mailroom);
    const nobody = `http://127.0.0.1:${await freePort()}`;
    const results = await run({ ...prepared, email, url, away, nobody, token });
    return [...results, await kept(scene, email)];
  };
  const programsOf = {
    "the oldest Node": [programs.NODES[0].path(), ["http_program.mjs"]],
    Deno: [
      programs.deno(),
      ["run", "--no-prompt", "--no-lock", "--cached-only", "--node-modules-dir=manual"].concat(
        "--allow-net=127.0.0.1",
        "http_program.mjs",
      ),
    ],
    Bun: [programs.bun(), ["run", "http_program.mjs"]],
  };
  for (const [title, [program, args]] of Object.entries(programsOf)) {
    const run = (prepared) => resultsOf(program, [...args, JSON.stringify(prepared)], folder);
    yield [title, program, on(run)];
  }
  const program = programs.workerd();
  yield ["workerd", program, on((prepared) => onWorkerd(program, folder, prepared))];
}

async function onWorkerd(program, folder, prepared) {
  const installed = join(folder, "node_modules/mailroom-verifier");
  const conditions = ["workerd", "worker", "import"];
  const path = resolveExport(installed, "./database", conditions);
  const worker = {
    program,
    folder,
    main: "http_worker.mjs",
    date: programs.version(program),
    aliases: { [ENTRY]: posix.join("node_modules/mailroom-verifier", path) },
    bindings: {
      texts: { PREPARED: JSON.stringify(prepared) },
      servers: Object.fromEntries(
        [
          ["SERVE", prepared.url],
          ["AWAY", prepared.away],
          ["NOBODY", prepared.nobody],
        ].map(([name, address]) => [name, new URL(address).host]),
      ),
    },
  };
  return withWorker(worker, resultsOfWorker);
}

/** Links that a runtime uses, which cannot look into the queue. */
async function prepare(scene, mailroom) {
  const user = await scene.user();
  const [coded, plain] = [
    await scene.link(mailroom, "recover", user),
    await scene.link(mailroom, "invite", await scene.user()),
  ];
  const issued = await scene.issued(plain.token);
  return {
    email: user.email,
    links: {
      coded: {
        secret: Buffer.from(coded.link.secret).toString("hex"),
        code: coded.code,
        subject: user.id,
      },
      plain: { subject: issued.subject_id },
    },
  };
}

/** What the database has of the mail that was made there. */
async function kept(scene, email) {
  const name = "and the database has it all";
  try {
    const [row] = await scene.rows(
      `SELECT tokens.*, actions.name AS action_name FROM mailroom.issued_tokens AS tokens
      JOIN mailroom.actions ON actions.number = action
      WHERE recipient_email = $1 AND subject_id = 'elsewhere'`,
      [email],
    );
    same(`${row.action_name} ${row.recipient_name}`, "invite Ada ' Lovelace", "whose");
    same(`${row.language} ${row.notice_recipient}`, `pt-BR old.${email}`, "language and notices");
    same(row.binding.toString("hex"), "0f".repeat(16), "binding");
    return { name };
  } catch (error) {
    return { name, error: String(error?.stack ?? error) };
  }
}

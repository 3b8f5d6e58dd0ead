// The files that REFERENCE.md shows for Next.js, as `create-next-app` configures it: `next build`
// checks their types and builds them. A stand-in for pg answers as Mailroom's functions do.

import { mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { Checks } from "../checks.mjs";
import { built } from "../handlers/builds.mjs";
import { served } from "../handlers/sites.mjs";
import { files } from "../readme/document.mjs";
import { write } from "../runtimes/consumer.mjs";
import { until } from "../waiting.mjs";

/** As `create-next-app` writes them, with Turbopack's root of these tests. */
const CREATED = {
  "package.json": '{ "name": "shop", "version": "0.1.0", "private": true }\n',
  "next.config.ts": `import type { NextConfig } from "next";

const nextConfig: NextConfig = { turbopack: { root: process.env.WORKSPACE } };

export default nextConfig;
`,
  "tsconfig.json": JSON.stringify({
    compilerOptions: {
      target: "ES2017",
      lib: ["dom", "dom.iterable", "esnext"],
      allowJs: true,
      skipLibCheck: true,
      strict: true,
      noEmit: true,
      esModuleInterop: true,
      module: "esnext",
      moduleResolution: "bundler",
      resolveJsonModule: true,
      isolatedModules: true,
      jsx: "react-jsx",
      incremental: true,
      plugins: [{ name: "next" }],
      paths: { "@/*": ["./*"] },
    },
    include: ["next-env.d.ts", "**/*.ts", "**/*.tsx", ".next/types/**/*.ts"],
    exclude: ["node_modules"],
  }),
  "app/layout.tsx": `import type { ReactNode } from "react";

export default function RootLayout({ children }: { children: ReactNode }) {
  return <html lang="en"><body>{children}</body></html>;
}
`,
};

/** What the application asks of its database is written where QUERIES says. */
const PG = `const { appendFileSync } = require("node:fs");
const query = async (text, values = []) => {
  appendFileSync(process.env.QUERIES, JSON.stringify([text, ...values]) + "\\n");
  if (text.includes('"mailroom".redeem')) {
    const answer = { verdict: "ok", token: "1", subject_id: "7", transaction: "9" };
    return { rows: [{ answer: JSON.stringify(answer) }] };
  }
  if (text.includes("browser_code(")) return { rows: [{ answer: "31943" }] };
  if (text.includes(".enqueue(")) return { rows: [{ answer: "1" }] };
  if (text.startsWith("SELECT pg_current")) return { rows: [{ answer: "9" }] };
  if (text.startsWith("INSERT INTO users")) return { rows: [{ id: "7" }] };
  if (text.includes("FROM users")) return { rows: [{ id: "7", email: values[0] }] };
  return { rows: [] };
};
exports.Pool = class {
  query = query;
  on() {}
  connect = async () => ({ query, release() {} });
};
`;

export async function nextFiles(folder, reference, { program, node, run, key, token }) {
  const checks = new Checks();
  const site = join(folder, "next-files");
  const shown = files(reference);
  const texts = {
    ...CREATED,
    "node_modules/pg/package.json": '{ "name": "pg", "version": "8.0.0", "main": "index.js" }\n',
    "node_modules/pg/index.js": PG,
    "lib/accounts.ts": shown["accounts.ts"],
    // As the document says.
    "lib/ask.ts": shown["ask.ts"].replace('"./accounts.ts"', '"@/lib/accounts"'),
  };
  for (const [name, text] of Object.entries(shown)) if (name.startsWith("app/")) texts[name] = text;
  for (const [name, text] of Object.entries(texts)) {
    mkdirSync(dirname(join(site, name)), { recursive: true });
    write(site, name, text);
  }
  const types = fileURLToPath(new URL("../node_modules/@types/pg", import.meta.url));
  mkdirSync(join(site, "node_modules/@types"), { recursive: true });
  symlinkSync(types, join(site, "node_modules/@types/pg"));
  const path = built(site, program, ["build"], node);
  const queries = join(site, "queries");
  write(site, "queries", "");
  const asked = (pattern) => () => pattern.test(readFileSync(queries, "utf8"));
  const start = ["--hostname", "127.0.0.1", "--port", "0"];
  const environment = { MAILROOM_SECRET_KEY: key, QUERIES: queries };
  const server = run(site, [path, "start", ...start], environment);
  await served(server, /Ready/, async (url) => {
    const ask = async (path, fields) => {
      const body = fields && new URLSearchParams(fields);
      const sent = body && { method: "POST", body, headers: { Origin: url } };
      const answer = await fetch(`${url}${path}`, { redirect: "manual", ...sent });
      return { status: answer.status, text: await answer.text() };
    };
    const form = await ask(`/activate?token=${token}`);
    checks.same("a link of an activation has a page", form.status, 200);
    checks.same("which asks for a password", /name="password"/.test(form.text), true);
    const done = await ask("/activate", { token, password: "correct horse battery" });
    checks.same("and sets it", done.status, 200);
    const hashed = /UPDATE users SET password_salt.*"7".*DELETE FROM sessions.*"COMMIT"/s;
    checks.same("in one transaction", asked(hashed)(), true);
    checks.same("a link of a recovery is served", (await ask("/recover?token=A")).status, 403);
    const forgot = await ask("/forgot");
    checks.same("a form asks for an address", /name="email"/.test(forgot.text), true);
    const sent = await ask("/forgot", { email: "ada@example.test" });
    checks.same("a browser gets its digits", /31943/.test(sent.text), true);
    await until("the mail of the recovery", asked(/enqueue\(.*"recover"/));
    const signup = await ask("/signup");
    checks.same("who is new signs up", /name="email"/.test(signup.text), true);
    // Without script the form of a server action has its id in a field.
    const [, action] = /name="(\$ACTION_ID_\w+)"/.exec(signup.text) ?? [];
    const registration = new FormData();
    registration.set(action, "");
    registration.set("email", "bob@example.test");
    const headers = { Origin: url };
    const options = { method: "POST", body: registration, headers, redirect: "manual" };
    const answer = await fetch(`${url}/signup`, options);
    checks.same("and is led on", answer.headers.get("Location"), /\/signup\?sent=yes$/);
    await until("the mail of the activation", asked(/enqueue\(.*"activate".*bob@example\.test/));
    const after = await ask("/signup?sent=yes");
    checks.same("to what it is about", /a mail is on its way/.test(after.text), true);
  });
  return checks.results;
}

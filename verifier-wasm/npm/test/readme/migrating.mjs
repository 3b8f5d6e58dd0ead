// The programs of the book's guides, before and after, asked the same: what a scanner does, what a
// person does, and an old link.

import { copyFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { SignJWT } from "jose";

import { key, newLink } from "../link_handler/server.mjs";
import { Checks } from "../checks.mjs";

const SITE = "https://app.example";
const PEERS = ["better-auth", "jose"];

/** Gives the programs what they import beside the package. */
export function prepare(folder) {
  for (const name of PEERS) {
    symlinkSync(
      fileURLToPath(new URL(`../node_modules/${name}`, import.meta.url)),
      join(folder, "node_modules", name),
    );
  }
  copyFileSync(new URL("database.mjs", import.meta.url), join(folder, "database.js"));
}

const opened = (route, token) => route(new Request(`${SITE}/activate?token=${token}`));

const pressed = (route, token) => {
  const body = new URLSearchParams({ token });
  return route(
    new Request(`${SITE}/activate`, { method: "POST", body, headers: { Origin: SITE } }),
  );
};

/** Imports a program of the document, with the keys that it reads. */
async function program(folder, name) {
  process.env.MAILROOM_SECRET_KEY = key;
  process.env.JWT_KEY = "a".repeat(32);
  process.env.BETTER_AUTH_SECRET = "5f3c1e9a7b2d4068c1e5a9d3b7f20648";
  return import(pathToFileURL(join(folder, name)));
}

export async function fromJose(folder) {
  const checks = new Checks();
  const database = await program(folder, "database.js");
  const before = await program(folder, "jose_before.mjs");
  const after = await program(folder, "jose_after.mjs");
  const jwt = (audience, subject) =>
    new SignJWT({})
      .setProtectedHeader({ alg: "HS256" })
      .setSubject(subject)
      .setAudience(audience)
      .setExpirationTime("1h")
      .sign(new TextEncoder().encode(process.env.JWT_KEY));
  const used = (id) => database.activated.filter((one) => one === id).length;

  const scanned = await jwt("activate", "ada");
  for (const times of [1, 2]) {
    checks.same(`before, opened ${times} times`, (await opened(before.GET, scanned)).status, 200);
    checks.same(`before, each use counts, ${times}`, used("ada"), times);
  }
  checks.same(
    "before, a JWT for something else",
    (await opened(before.GET, await jwt("recover", "eve"))).status,
    400,
  );

  const { token, secret } = newLink("activate");
  database.add(secret, "bob");
  for (const times of [1, 2])
    checks.same(`after, opened ${times} times`, (await opened(after.GET, token)).status, 200);
  checks.same("after, opening uses nothing", used("bob"), 0);
  checks.same("after, the button activates", (await pressed(after.POST, token)).status, 200);
  checks.same(
    "after, once",
    `${(await pressed(after.POST, token)).status >= 400} ${used("bob")}`,
    "true 1",
  );
  checks.same(
    "after, a link for something else",
    (await opened(after.GET, newLink("recover").token)).status >= 400,
    true,
  );
  checks.same(
    "after, a link of before",
    (await opened(after.GET, await jwt("activate", "cy"))).status,
    200,
  );
  checks.same("after, a link of before activates", used("cy"), 1);
  checks.same(
    "after, a JWT cannot be pressed",
    (await pressed(after.POST, scanned)).status >= 400,
    true,
  );
  return checks.results;
}

export async function fromBetterAuth(folder) {
  const checks = new Checks();
  const database = await program(folder, "database.js");
  const before = await program(folder, "better_auth_before.mjs");
  const after = await program(folder, "better_auth_after.mjs");
  const credentials = (name) => ({
    email: `${name}@example.test`,
    password: "correct horse battery staple",
  });
  const signUp = ({ auth }, name) => auth.api.signUpEmail({ body: { name, ...credentials(name) } });
  const signIn = async ({ auth }, name) =>
    (await auth.api.signInEmail({ body: credentials(name), asResponse: true })).status;
  const isVerified = (name) =>
    database.tables.user.find((user) => user.name === name).emailVerified;

  for (const name of ["ada", "late"]) await signUp(before, name);
  const [mail, late] = database.mails;
  await before.auth.handler(new Request(mail.url));
  checks.same("before, a GET verifies", isVerified("ada"), true);

  await signUp(after, "bob");
  const [{ action, email, id }, ...more] = database.enqueued;
  checks.same(
    "after, a user is enqueued",
    `${action} ${email} ${more.length}`,
    "activate bob@example.test 0",
  );
  checks.same("after, better-auth sends nothing", database.mails.length, 2);
  const { token, secret } = newLink("activate");
  database.add(secret, id);
  checks.same("after, the link is opened", (await opened(after.GET, token)).status, 200);
  checks.same("after, a GET verifies nothing", isVerified("bob"), false);
  checks.same("after, signing in waits for it", await signIn(after, "bob"), 403);
  checks.same("after, the button verifies", (await pressed(after.POST, token)).status, 200);
  checks.same("after, signing in works", await signIn(after, "bob"), 200);
  checks.same("after, the link is used", (await pressed(after.POST, token)).status >= 400, true);
  await after.auth.handler(new Request(late.url));
  checks.same("after, a link of before still verifies", isVerified("late"), true);
  return checks.results;
}

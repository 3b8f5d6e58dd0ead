// The server of the REFERENCE with three pages, as a process of its own.

import { spawn } from "node:child_process";

import { freePort } from "../ports.mjs";
import { write } from "../runtimes/consumer.mjs";
import * as programs from "../runtimes/programs.mjs";
import { until } from "../waiting.mjs";
import { commands } from "./document.mjs";

/**
 * `place` has the stand-in for pg already. The newest Node runs the files as they are: the oldest
 * reads no TypeScript.
 */
export async function threePages(place, shown, document) {
  for (const name of ["accounts.ts", "ask.ts"]) write(place, name, shown[name]);
  const port = await freePort();
  write(place, "server.ts", shown["server.ts"].replace(".listen(8000)", `.listen(${port})`));
  const [, key] = /keys: "([0-9a-f]{64})"/.exec(shown["redeem.mjs"]);
  const { text } = commands(document).find(({ text }) => text.startsWith("node redeem.mjs"));
  const [activation, recovery] = text.match(/Ag[\w-]{100,}/g);
  const server = spawn(programs.NODES.at(-1).path(), ["server.ts"], {
    cwd: place,
    env: { PATH: process.env.PATH, MAILROOM_SECRET_KEY: key },
    stdio: ["ignore", "ignore", "inherit"],
  });
  const address = `http://127.0.0.1:${port}`;
  const results = [];
  const check = async (name, path, found, options) => {
    const answer = await fetch(`${address}${path}`, options);
    const shownPage = `${answer.status} ${await answer.text()}`;
    results.push({ name, error: found.test(shownPage) ? undefined : shownPage.slice(0, 500) });
  };
  try {
    await until("the three pages", () =>
      fetch(address).then(
        () => true,
        () => false,
      ),
    );
    await check("/activate has a button", `/activate?token=${activation}`, /^200 .*<button/s);
    await check("also as quoted-printable", `/activate=3Ftoken=3D${activation}`, /^200 .*<button/s);
    const both = /^200 .*name="code".*name="password"/s;
    await check("/recover asks for code and password", `/recover?token=${recovery}`, both);
    await check("/forgot asks for an address", "/forgot", /^200 .*name="email"/s);
    await check("and refuses a form of another site", "/forgot", /^403 /, {
      method: "POST",
      headers: { Origin: "https://evil.example" },
      body: new URLSearchParams({ email: "ada@example.test" }),
    });
    await check("and one that is too large", "/forgot", /^413 /, {
      method: "POST",
      headers: { Origin: address },
      body: new URLSearchParams({ email: "a".repeat(5_000) }),
    });
    await check("and one that says no length", "/forgot", /^413 /, {
      method: "POST",
      headers: { Origin: address, "Content-Type": "application/x-www-form-urlencoded" },
      body: new Blob(["email=ada%40example.test"]).stream(),
      duplex: "half",
    });
    await check("another path is nobody's", "/forgotten", /^404 $/);
  } finally {
    server.kill();
  }
  return results;
}

// Forged links, at the demonstration's Worker and at the same Worker that judges JSON Web Tokens.

import { generateKeyPairSync, randomBytes } from "node:crypto";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";
import { SignJWT } from "jose";

import * as programs from "../../runtimes/programs.mjs";
import { withWorker } from "../../runtimes/workerd.mjs";
import { Asking } from "./asking.mjs";

const EDGE = fileURLToPath(new URL("../../../../../web-demo/edge/worker.ts", import.meta.url));
const JOSE_LINK = fileURLToPath(new URL("jose_link.mjs", import.meta.url));
/** As many different ones come in turn. */
const LINKS = 256;
/** In milliseconds. */
const LASTS = 2_000;
/** How many are asked at the same time. */
const ASKERS = 32;
/** What Linux counts the time of processes in: a hundredth of a second. */
const TICK = 10_000;

/**
 * Serves both Workers while `measure` measures what they answer.
 *
 * @param {(contestants: {
 *     name: string,
 *     refuse(): Promise<{ rate: number, microseconds: number }>,
 *   }[]) => Promise<T>} measure
 * @returns {Promise<T>}
 */
export async function withForgedLinks(consumer, measure) {
  const [own, jose] = [await ownLinks(consumer), await webTokens()];
  const fromConsumer = {
    name: "the package of the consumer",
    setup(build) {
      build.onResolve({ filter: /^mailroom-verifier(\/|$)/ }, ({ path, kind, pluginData }) =>
        pluginData === fromConsumer
          ? undefined
          : build.resolve(path, { resolveDir: consumer, kind, pluginData: fromConsumer }),
      );
    },
  };
  const judgingByJose = {
    name: "links judged by jose",
    setup(build) {
      build.onResolve({ filter: /^\.\/link\.ts$/ }, () => ({ path: JOSE_LINK }));
    },
  };
  const edge = await bundled(join(consumer, "edge"), [fromConsumer]);
  const other = await bundled(join(consumer, "edge-jose"), [judgingByJose, fromConsumer]);
  return serving(edge, own.keys, (asked) =>
    serving(other, jose.keys, async (askedByJose) => {
      await asked.shows([own.v2.genuine, own.v3.genuine]);
      await askedByJose.shows([jose.hs256.genuine, jose.eddsa.genuine]);
      return measure([
        asked.refusing("a page, and no link", [""]),
        asked.refusing("malformed, 114 characters", own.malformed),
        asked.refusing("forged, v2", own.v2.forged),
        askedByJose.refusing("forged, HS256 by jose", jose.hs256.forged),
        asked.refusing("forged, v3", own.v3.forged),
        askedByJose.refusing("forged, EdDSA by jose", jose.eddsa.forged),
      ]);
    }),
  );
}

async function many(make) {
  return Promise.all(Array.from({ length: LINKS }, make));
}

/** Links as this project signs them, by the package's own entry for tests. */
async function ownLinks(consumer) {
  const require = createRequire(join(consumer, "package.json"));
  const { createTestLinks } = require("mailroom-verifier/testing");
  const { sharedKey, publicKey, sign } = await createTestLinks();
  const of = async (format) => {
    const token = async (state) => (await sign({ action: "activate", format, state })).token;
    return { genuine: await token("valid"), forged: await many(() => token("forged")) };
  };
  const malformed = await many(async () => randomBytes(85).toString("base64url"));
  return { keys: [sharedKey, publicKey], v2: await of("v2"), v3: await of("v3"), malformed };
}

/** JSON Web Tokens of the same contents, forged by another key as well. */
async function webTokens() {
  const shared = randomBytes(32);
  const pair = generateKeyPairSync("ed25519");
  const signed = (alg, key) =>
    new SignJWT({ action: "activate", secret: randomBytes(32).toString("base64url") })
      .setProtectedHeader({ alg })
      .setExpirationTime("1h")
      .sign(key);
  const { x } = pair.publicKey.export({ format: "jwk" });
  return {
    keys: [shared.toString("hex"), `mrpk_${x}`],
    hs256: {
      genuine: await signed("HS256", shared),
      forged: await many(() => signed("HS256", randomBytes(32))),
    },
    eddsa: {
      genuine: await signed("EdDSA", pair.privateKey),
      forged: await many(() => signed("EdDSA", generateKeyPairSync("ed25519").privateKey)),
    },
  };
}

/** Bundles the demonstration's Worker as its own build does. */
async function bundled(folder, plugins) {
  rmSync(folder, { recursive: true, force: true });
  await build({
    entryPoints: [EDGE],
    outdir: folder,
    bundle: true,
    format: "esm",
    target: "es2023",
    platform: "neutral",
    mainFields: ["module", "main"],
    conditions: ["workerd", "worker", "browser"],
    loader: { ".wasm": "copy" },
    // For jose, which the Worker itself does not have.
    nodePaths: [fileURLToPath(new URL("../../node_modules", import.meta.url))],
    logLevel: "error",
    plugins,
  });
  return folder;
}

async function serving(folder, [secretKey, publicKey], act) {
  const program = programs.workerd();
  if (program === undefined) throw new Error("npm has no workerd for this machine");
  // What no forged link gets to.
  const nobody = "127.0.0.1:1";
  const bindings = {
    texts: {
      MAILROOM_SECRET_KEYS: secretKey,
      MAILROOM_PUBLIC_KEYS: publicKey,
      ORIGIN_PASSWORD: randomBytes(16).toString("hex"),
      SERVE_TOKEN: randomBytes(16).toString("hex"),
      V1_RECOVERIES: "refuse",
    },
    servers: { ORIGIN: nobody, SERVE: nobody, ASSETS: nobody },
  };
  const objects = { USED_TOKENS: "UsedToken" };
  const date = programs.version(program);
  const worker = { program, folder, main: "worker.js", date, bindings, objects };
  return withWorker(worker, async (url) => {
    const asking = new Asking(url);
    const show = async (token) => (await asking.ask("GET", `/activate?token=${token}`)).status;
    const processor = processorOf(program, join(folder, "workerd.capnp"));
    try {
      return await act({
        async shows(tokens) {
          for (const token of tokens) {
            const status = await show(token);
            if (status !== 200) throw new Error(`a genuine link was answered by ${status}`);
          }
        },
        refusing: (name, tokens) => ({ name, refuse: () => refuse(show, tokens, processor) }),
      });
    } finally {
      asking.end();
    }
  });
}

/** Asks for tokens that must all be refused; `microseconds` are the processor's for each. */
async function refuse(show, tokens, processor) {
  let refused = 0;
  const [started, before] = [performance.now(), processor()];
  const asker = async () => {
    while (performance.now() - started < LASTS) {
      const status = await show(tokens[refused % tokens.length]);
      if (status < 400 || status >= 500) throw new Error(`refused by ${status}`);
      refused += 1;
    }
  };
  await Promise.all(Array.from({ length: ASKERS }, asker));
  const seconds = (performance.now() - started) / 1000;
  return { rate: refused / seconds, microseconds: (processor() - before) / refused };
}

/** What tells the microseconds of the processor that a program has used, as Linux counts them. */
function processorOf(program, argument) {
  const pid = readdirSync("/proc").find((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    const words = read(`/proc/${pid}/cmdline`).split("\0");
    return words[0] === program && words.includes(argument);
  });
  if (pid === undefined) throw new Error("workerd is not among the processes");
  return () => {
    // Behind the name, which may have blanks in it.
    const words = read(`/proc/${pid}/stat`)
      .replace(/^.*\) /, "")
      .split(" ");
    const [user, system] = words.slice(11, 13).map(Number);
    return (user + system) * TICK;
  };
}

function read(file) {
  try {
    return readFileSync(file, "utf8");
  } catch {
    // A process that has ended meanwhile.
    return "";
  }
}

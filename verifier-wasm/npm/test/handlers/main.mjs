// The configuration with which web-demo/README.md deploys its edge function:
// `node main.mjs TARBALL FOLDER`. FOLDER is made anew.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { NODES } from "../runtimes/programs.mjs";
import { Report } from "../runtimes/report.mjs";

const HERE = fileURLToPath(new URL(".", import.meta.url));

const [, folder] = process.argv.slice(2);
const document = readFileSync(join(HERE, "../../../../web-demo/README.md"), "utf8");
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });

const report = new Report();
await report.run("wrangler.jsonc", () => [bound()]);
await report.run("wrangler deploy --dry-run", async () => [await deployable()]);
report.end();

/**
 * Whatever the Worker is bound to is in the configuration or among the secrets of the document; the
 * stage is not.
 */
function bound() {
  const edge = join(HERE, "../../../../web-demo/edge");
  const environment = readFileSync(join(edge, "environment.ts"), "utf8");
  const wanted = [...environment.matchAll(/^ {2}readonly (\w+): /gm)]
    .map(([, name]) => name)
    .toSorted();
  const text = readFileSync(join(edge, "wrangler.jsonc"), "utf8").replace(/^\s*\/\/.*$/gm, "");
  const { assets, durable_objects, vars, vpc_services } = JSON.parse(text);
  const secrets = [...document.matchAll(/wrangler secret put (\w+)/g)].map(([, name]) => name);
  const objects = durable_objects.bindings.map(({ name }) => name);
  const services = vpc_services.map(({ binding }) => binding);
  const given = [
    assets.binding,
    ...Object.keys(vars),
    ...objects,
    ...services,
    ...secrets,
  ].toSorted();
  const name = "it binds what the Worker needs";
  return {
    name,
    error: given.join() === wanted.join() ? undefined : `${given} instead of ${wanted}`,
  };
}

/**
 * Cloudflare's own tool reads the configuration, bundles the Worker and finds what it is bound to.
 * Of its companions for this machine, the bundler and workerd, those of the other tests do; it
 * needs a newer Node than this one may be.
 */
async function deployable() {
  const name = "Cloudflare's tool takes the edge function";
  const tests = join(HERE, "../node_modules");
  const newest = NODES.at(-1).path();
  const machine = `workerd-${process.platform}-${process.arch === "x64" ? "64" : process.arch}`;
  const companion = join(HERE, "node_modules/@cloudflare", machine);
  if (!existsSync(companion)) symlinkSync(join(tests, "@cloudflare", machine), companion);
  const home = join(folder, "home");
  const { status, stdout, stderr } = spawnSync(
    newest,
    [
      join(HERE, "node_modules/wrangler/bin/wrangler.js"),
      ...[
        "deploy",
        "--dry-run",
        "--config",
        "edge/wrangler.jsonc",
        "--outdir",
        join(folder, "deployed"),
      ],
    ],
    {
      cwd: join(HERE, "../../../../web-demo"),
      encoding: "utf8",
      env: {
        ...{
          PATH: process.env.PATH,
          HOME: home,
          CI: "true",
          WRANGLER_SEND_METRICS: "false",
          NO_COLOR: "1",
        },
        ESBUILD_BINARY_PATH: join(
          tests,
          "@esbuild",
          `${process.platform}-${process.arch}`,
          "bin/esbuild",
        ),
      },
    },
  );
  const bound = ["USED_TOKENS (UsedToken)", "env.ORIGIN ", "env.ASSETS"];
  const missing = bound.filter((binding) => !stdout?.includes(binding));
  const built =
    readdirSync(join(folder, "deployed")).filter((file) => file.endsWith(".wasm")).length === 2;
  const well = status === 0 && missing.length === 0 && built;
  return {
    name,
    error: well ? undefined : `status ${status}, missing ${missing}: ${stdout}${stderr}`,
  };
}

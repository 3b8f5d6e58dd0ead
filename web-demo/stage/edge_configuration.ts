// The configuration of workerd that binds the edge function as `wrangler.toml` would on Cloudflare.

import { cpSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import type { Setting } from "./setting.ts";

export interface EdgeBindings {
  readonly texts: Readonly<Record<string, string>>;
  /** Services by their address, `127.0.0.1:8080`. */
  readonly servers: Readonly<Record<string, string>>;
}

/** As old as the pinned workerd allows and as new as the package needs. */
const COMPATIBILITY_DATE = "2026-10-01";

/** The classes of the Worker's Durable Objects, by the name of their binding. */
const OBJECTS = { USED_TOKENS: "UsedToken" };

/**
 * Writes the configuration of the Worker in `site/edge`, which listens on `port`,
 * or any if that is 0.
 */
export function writeEdgeConfiguration(
  { folder, site, objects }: Setting,
  port: number,
  { texts, servers }: EdgeBindings,
): string {
  // workerd embeds what lies below its configuration, and nothing else.
  cpSync(join(site, "edge"), join(folder, "edge"), { recursive: true });
  const modules = readdirSync(join(site, "edge"))
    .filter((name) => /\.(js|wasm)$/.test(name))
    // The first module is the one that answers.
    .sort((a, b) => Number(b === "worker.js") - Number(a === "worker.js"))
    .map((name) => {
      const kind = name.endsWith(".wasm") ? "wasm" : "esModule";
      return `(name = ${text(name)}, ${kind} = embed ${text(`edge/${name}`)})`;
    });
  const services = [
    '(name = "main", worker = .worker)',
    `(name = "objects", disk = (path = ${text(objects)}, writable = true))`,
    `(name = "ASSETS", disk = (path = ${text(join(site, "pages"))}))`,
    ...Object.entries(servers).map(
      ([name, address]) =>
        `(name = ${text(name)}, external = (address = ${text(address)}, http = ()))`,
    ),
  ];
  const bindings = [
    ...Object.entries(texts).map(
      ([name, value]) => `(name = ${text(name)}, text = ${text(value)})`,
    ),
    ...["ASSETS", ...Object.keys(servers)].map(
      (name) => `(name = ${text(name)}, service = ${text(name)})`,
    ),
    ...Object.entries(OBJECTS).map(
      ([name, kept]) => `(name = ${text(name)}, durableObjectNamespace = ${text(kept)})`,
    ),
  ];
  const classes = Object.values(OBJECTS).map(
    (name) => `(className = ${text(name)}, uniqueKey = ${text(name)}, enableSql = true)`,
  );
  const file = join(folder, "edge.capnp");
  const configuration = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    ${services.join(",\n    ")},
  ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);
const worker :Workerd.Worker = (
  modules = [
    ${modules.join(",\n    ")},
  ],
  compatibilityDate = "${COMPATIBILITY_DATE}",
  bindings = [
    ${bindings.join(",\n    ")},
  ],
  durableObjectNamespaces = [
    ${classes.join(",\n    ")},
  ],
  durableObjectStorage = (localDisk = "objects"),
);
`;
  // It holds the keys.
  writeFileSync(file, configuration, { mode: 0o600 });
  return file;
}

/** Quoted strings of Cap'n Proto are those of JSON as far as file names and keys go. */
function text(value: string): string {
  return JSON.stringify(value);
}

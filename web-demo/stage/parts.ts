// The parts of the demonstration, and how each is started.

import { createHash, randomBytes } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { databaseVariables } from "./database.ts";
import { writeEdgeConfiguration } from "./edge_configuration.ts";
import type { Format, Keys } from "./keys.ts";
import { Part, type Plan, type Watcher } from "./part.ts";
import { writeSending, writeTemplates } from "./sending.ts";
import type { Setting } from "./setting.ts";

/**
 * What the collector is started with; it reads its settings once, so a change of them is a restart.
 */
export interface Signing {
  format: Format;
}

export interface Parts {
  readonly inbox: Part;
  readonly origin: Part;
  readonly serve: Part;
  readonly edge: Part;
  readonly collector: Part;
}

/** @param stage the port on which the stage itself listens */
export function makeParts(
  setting: Setting,
  keys: Keys,
  signing: Signing,
  stage: number,
  watcher: Watcher,
): Parts {
  const logs = join(setting.folder, "logs");
  mkdirSync(logs, { recursive: true });
  const password = randomBytes(32).toString("hex");
  const bearer = `mrst_${randomBytes(32).toString("base64url")}`;
  const tokens = writeBearerTokens(setting, bearer);
  const part = (name: string, listens: boolean, plan: () => Plan) =>
    new Part(name, listens, logs, watcher, plan);

  const inbox: Part = part("inbox", true, () => ({
    program: setting.inbox,
    arguments: [],
    variables: { SMTP_PORT: String(inbox.ports.smtp ?? 0) },
  }));
  const origin = part("origin", true, () =>
    node(setting, "origin", {
      ...databaseVariables(setting, setting.application),
      ORIGIN_PASSWORD: password,
    }),
  );
  const serve: Part = part("serve", true, () => ({
    program: setting.mailroom,
    arguments: ["serve", "--tokens", tokens, "--listen", String(serve.port ?? 0)],
    variables: databaseVariables(setting, setting.server),
  }));
  const edge = part("edge", true, () => {
    const { shared, public: open } = keys.ofEdge;
    const file = writeEdgeConfiguration(setting, edge.port ?? 0, {
      texts: {
        MAILROOM_SECRET_KEYS: shared,
        MAILROOM_PUBLIC_KEYS: open,
        ORIGIN_PASSWORD: password,
        SERVE_TOKEN: bearer,
        // Always: links outlive the switch of the format by which they were made.
        V1_RECOVERIES: "allow",
      },
      servers: {
        ORIGIN: `127.0.0.1:${origin.port}`,
        SERVE: `127.0.0.1:${serve.port}`,
        STAGE: `127.0.0.1:${stage}`,
      },
    });
    return {
      program: setting.workerd,
      arguments: ["serve", file, "--control-fd=3"],
      variables: {},
    };
  });
  writeTemplates(setting);
  const collector = part("collector", false, () => {
    const sender = writeSending(setting, edge.url, inbox.ports.smtp ?? 0);
    return collectorPlan(setting, keys, signing, sender);
  });
  return { inbox, origin, serve, edge, collector };
}

function node(setting: Setting, name: string, variables: Record<string, string>): Plan {
  return {
    program: process.execPath,
    arguments: [join(setting.site, "node", `${name}.js`)],
    variables,
  };
}

/** The edge may use links of accounts, and call nothing else: docs/guides/serve.md. */
function writeBearerTokens({ folder }: Setting, bearer: string): string {
  const file = join(folder, "serve.toml");
  const lines = [
    "[[token]]",
    'name = "edge"',
    `sha256 = "${createHash("sha256").update(bearer).digest("hex")}"`,
    'rights = ["redeem"]',
    'actions = ["activate", "recover"]',
  ];
  writeFileSync(file, `${lines.join("\n")}\n`, { mode: 0o600 });
  return file;
}

function collectorPlan(setting: Setting, keys: Keys, { format }: Signing, sender: string): Plan {
  return {
    program: setting.mailroom,
    arguments: ["collect", "--sender", sender],
    variables: {
      ...databaseVariables(setting, setting.collector),
      MAILROOM_TOKEN_FORMAT: format,
      MAILROOM_KEY_FILE: keys.file(format),
      // Its role may not prune.
      MAILROOM_RETENTION: "off",
      // A mail is there within a second, and of a thousand registrations fifty go out at once.
      MAILROOM_BATCH_TIMEOUT: "1000ms",
      MAILROOM_BATCH_LIMIT: "50",
      // What a killed collector had claimed is free again after the lease:
      // soon, since somebody watches.
      MAILROOM_SENDER_TIMEOUT: "5s",
      MAILROOM_LEASE: "10s",
    },
  };
}

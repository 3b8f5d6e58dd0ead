// A throwaway database with Mailroom's schema and the roles of docs/operate/rights.md.

import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

import { Client } from "pg";

import { inherited } from "./part.ts";
import productSql from "./product.sql";
import rolesSql from "./roles.sql";

export interface Role {
  readonly user: string;
  readonly password: string;
}

/** Where the database is and who connects to it. */
export interface Access {
  readonly database: { readonly host: string; readonly port: number; readonly name: string };
  /** Who migrated, who collects, who is the application, who serves functions by HTTP. */
  readonly owner: Role;
  readonly collector: Role;
  readonly application: Role;
  readonly server: Role;
}

/** The variables by which libpq and the programs of Mailroom find the database. */
export function databaseVariables(
  { database }: Access,
  { user, password }: Role,
): Record<string, string> {
  return {
    PGHOST: database.host,
    PGPORT: String(database.port),
    PGDATABASE: database.name,
    PGUSER: user,
    PGPASSWORD: password,
    MAILROOM_DATABASE_URL: `postgresql:///${encodeURIComponent(database.name)}`,
  };
}

/** A path or URL that `cargo xtask demo` sets. */
export function required(variable: string): string {
  const value = process.env[variable];
  if (value === undefined)
    throw new Error(`${variable} is not set: start this by \`cargo xtask demo\``);
  return value;
}

/**
 * Calls `use` with a migrated database, and removes that, its roles and its server afterwards,
 * whatever happens.
 */
export async function withDatabase<T>(use: (access: Access) => Promise<T>): Promise<T> {
  const server = await startServer();
  try {
    const url = new URL(server.url);
    const [host, user, password] = [url.hostname, url.username, url.password].map(
      decodeURIComponent,
    );
    const maintenance = url.pathname.slice(1) || "postgres";
    const name = `mailroom_test_${process.pid}_${Date.now()}`;
    const access: Access = {
      database: { host: host || "127.0.0.1", port: Number(url.port || 5432), name },
      owner: { user: user || "postgres", password: password ?? "" },
      collector: { user: `${name}_collector`, password: randomBytes(32).toString("hex") },
      application: { user: `${name}_application`, password: randomBytes(32).toString("hex") },
      server: { user: `${name}_server`, password: randomBytes(32).toString("hex") },
    };
    await query(access, maintenance, `CREATE DATABASE ${name}`);
    try {
      const env = { ...inherited(), ...databaseVariables(access, access.owner) };
      await promisify(execFile)(required("MAILROOM_TEST_PROGRAM"), ["migrate", "up"], { env });
      const roles = rolesSql
        .replaceAll("{prefix}", name)
        .replace("{collector_password}", access.collector.password)
        .replace("{application_password}", access.application.password)
        .replace("{server_password}", access.server.password);
      await query(access, name, productSql);
      await query(access, name, roles);
      return await use(access);
    } finally {
      await query(access, maintenance, `DROP DATABASE ${name} WITH (FORCE)`);
      // Roles belong to all databases of a server, which may be one that stays.
      const { collector, application, server } = access;
      await query(
        access,
        maintenance,
        `DROP ROLE IF EXISTS ${collector.user}, ${application.user}, ${server.user}`,
      );
    }
  } finally {
    await server.stop();
  }
}

interface Server {
  readonly url: string;
  readonly stop: () => Promise<void>;
}

/** The server that a variable names, or one that ends with this process at the latest. */
async function startServer(): Promise<Server> {
  const { MAILROOM_TEST_DATABASE_URL: url } = process.env;
  if (url !== undefined) return { url, stop: async () => undefined };
  // In a process group of its own it does not get the Ctrl-C that is meant for this process.
  const child = spawn(required("MAILROOM_DEMO_XTASK"), ["postgres"], {
    detached: true,
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = once(child, "exit");
  const line = once(createInterface({ input: child.stdout }), "line");
  const [first] = await Promise.race([line, ended.then(() => [])]);
  if (first === undefined) throw new Error("PostgreSQL does not start");
  const stop = async () => {
    child.stdin.end();
    await ended;
  };
  return { url: first, stop };
}

async function query({ database, owner }: Access, name: string, sql: string): Promise<void> {
  const client = new Client({ ...owner, host: database.host, port: database.port, database: name });
  await client.connect();
  try {
    // All of it or nothing: the statements of one call are one transaction.
    await client.query(sql);
  } finally {
    await client.end();
  }
}

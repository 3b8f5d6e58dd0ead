// Builds applications, and keeps what was built until something that it is made of changes: a build
// takes ten times as long as what is then asked of it.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const PACKAGE = "mailroom-verifier";
const WORKSPACE = fileURLToPath(new URL("../../../..", import.meta.url));
const FRAMEWORKS = fileURLToPath(new URL("package-lock.json", import.meta.url));

/**
 * What the frameworks find in their environment while they build: no keys, and nobody to tell how
 * they are used.
 */
const WHILE_BUILDING = {
  ...{ PATH: process.env.PATH, CI: "true", NO_COLOR: "1", WORKSPACE },
  ...{ NEXT_TELEMETRY_DISABLED: "1", NUXT_TELEMETRY_DISABLED: "1", ASTRO_TELEMETRY_DISABLED: "1" },
};

/**
 * Runs a program of the framework in the folder of an application, unless what it makes is there
 * from a run before.
 *
 * @returns {string} where the program is
 */
export function built(site, program, given, node = process.execPath) {
  const folder = dirname(site);
  const path = join(folder, "node_modules", program);
  const kept = join(dirname(folder), "built", basename(folder), basename(site));
  const madeOf = hashOf(
    [site, join(folder, "node_modules", PACKAGE), FRAMEWORKS],
    [site, node, program, ...given],
  );
  if (existsSync(`${kept}.hash`) && readFileSync(`${kept}.hash`, "utf8") === madeOf) {
    copy(kept, site);
    return path;
  }
  const { status, stdout, stderr } = spawnSync(node, [path, ...given], {
    cwd: site,
    encoding: "utf8",
    env: { ...WHILE_BUILDING, HOME: join(site, "home") },
  });
  if (status !== 0) throw new Error(`${program} has ended with ${status}: ${stdout}${stderr}`);
  rmSync(`${kept}.hash`, { force: true });
  mkdirSync(dirname(kept), { recursive: true });
  copy(site, kept);
  writeFileSync(`${kept}.hash`, madeOf);
  return path;
}

/** Puts a copy in the place of what is there: a link to a folder is not copied over a link. */
function copy(from, to) {
  rmSync(to, { recursive: true, force: true });
  const filter = (path) => path !== join(from, "home");
  cpSync(from, to, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true, filter });
}

/** A hash of files, of all files in folders, and of words. */
function hashOf(paths, words) {
  const hash = createHash("sha256").update(JSON.stringify(words));
  const add = (path) => {
    hash.update(`${path}\0`);
    hash.update(readFileSync(path));
  };
  for (const path of paths) {
    if (statSync(path).isDirectory()) {
      const entries = readdirSync(path, { recursive: true, withFileTypes: true });
      const files = entries
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name));
      files.toSorted().forEach(add);
    } else add(path);
  }
  return hash.digest("hex");
}

// Finds the programs that the package is tested on. npm may be told not to run install scripts, so
// each is taken from the package of its platform, where it lies ready to run.

import { execFileSync } from "node:child_process";
import { accessSync, constants, existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

const MODULES = fileURLToPath(new URL("../node_modules", import.meta.url));
const { platform, arch } = process;

/**
 * The Node versions: the oldest that the package supports, the one that runs this,
 * the newest that npm had.
 */
export const NODES = [
  {
    title: "Node, oldest supported",
    path: () => inPackage(`node-minimum-${platform}-${arch}`, "bin/node"),
  },
  { title: "Node, installed", path: () => process.execPath },
  { title: "Node, newest", path: () => inPackage(`node-newest-${platform}-${arch}`, "bin/node") },
];

export function deno() {
  const libc = platform === "linux" ? "-glibc" : "";
  return inPackage(`@deno/${platform}-${arch}${libc}`, "deno");
}

export function bun() {
  return inPackage(`@oven/bun-${platform}-${arch === "arm64" ? "aarch64" : arch}`, "bin/bun");
}

export function workerd() {
  return inPackage(
    `@cloudflare/workerd-${platform}-${arch === "x64" ? "64" : arch}`,
    "bin/workerd",
  );
}

/**
 * Chromium, or Chrome, as the system has it; first the program that draws no windows. Its pages are
 * the same, and it takes three fifths of the processor's time of the other.
 */
export function chromium() {
  const names = [
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
  ];
  const applications = [
    "Chromium.app/Contents/MacOS/Chromium",
    "Google Chrome.app/Contents/MacOS/Google Chrome",
  ];
  const candidates = [
    ...(process.env.PATH ?? "")
      .split(delimiter)
      .flatMap((folder) => names.map((name) => join(folder, name))),
    ...applications.map((name) => join("/Applications", name)),
  ];
  return candidates.find(isProgram);
}

/** The version as the program tells it, such as `2.9.6`. */
export function version(program) {
  const said = execFileSync(program, ["--version"], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
  return /\d+(?:[.-]\d+)+/.exec(said)?.[0] ?? said.trim();
}

function inPackage(name, path) {
  const program = join(MODULES, name, path);
  return existsSync(program) ? program : undefined;
}

function isProgram(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

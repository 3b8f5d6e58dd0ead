import { SecretInBrowserError } from "../errors/errors.js";
import { invalid } from "./options.js";

/** Refuses shared keys in a page, unless the option allows them. */
export function demandSafety(allowed: unknown): void {
  if (allowed !== undefined && typeof allowed !== "boolean")
    throw invalid("dangerouslyAllowSecretInBrowser");
  if (allowed !== true && inBrowser())
    throw new SecretInBrowserError("whoever opens a page has its secret");
}

/**
 * Whether this is a page, or a worker of one: of all runtimes only browsers have `importScripts`.
 */
function inBrowser(): boolean {
  const { window, importScripts, process } = globalThis as {
    window?: { document?: unknown };
    importScripts?: unknown;
    process?: unknown;
  };
  const isLikePage = typeof window?.document === "object" || typeof importScripts === "function";
  return isLikePage && !isOfNode(process);
}

/**
 * Whether a process is that of Node, where jsdom, happy-dom or domino may have made a window.
 * Bundlers give pages an object of that name, which is of no such class and has no version; the
 * pages of Electron and NW.js have one that says whose it is.
 */
function isOfNode(process: unknown): boolean {
  if (Object.prototype.toString.call(process) !== "[object process]") return false;
  const { node, electron, nw } = (process as { versions?: Record<string, unknown> }).versions ?? {};
  return typeof node === "string" && electron === undefined && nw === undefined;
}

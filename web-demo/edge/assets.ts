// The pages that Vite built. On Cloudflare the binding ASSETS serves them with their types; the
// disk of workerd does not know any.

import type { Environment } from "./environment.ts";

const TYPES = new Map([
  ["css", "text/css; charset=utf-8"],
  ["html", "text/html; charset=utf-8"],
  ["js", "text/javascript; charset=utf-8"],
  ["svg", "image/svg+xml"],
]);

const PAGES = new Map([
  ["/", "/index.html"],
  ["/inspector", "/inspector.html"],
  ["/pipeline", "/pipeline.html"],
]);

/** The file, or nothing if there is none. */
export async function asset(env: Environment, pathname: string): Promise<Response | undefined> {
  const file = PAGES.get(pathname) ?? pathname;
  const type = TYPES.get(file.slice(file.lastIndexOf(".") + 1));
  if (type === undefined || file.includes("..")) return undefined;
  const found = await env.ASSETS.fetch(`http://assets${file}`);
  if (!found.ok) return undefined;
  return new Response(found.body, {
    headers: { "Content-Type": type, "Cache-Control": "no-cache" },
  });
}

// Serves the files of a folder over HTTP on this machine, for as long as `use` runs.

import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";

import { KEPT_OPEN } from "../waiting.mjs";

const TYPES = {
  ".css": "text/css",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".json": "application/json",
  ".mjs": "text/javascript",
  ".wasm": "application/wasm",
};

/** What a careful page allows: its own scripts, and to compile WebAssembly, but no `eval`. */
export const STRICT_POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'";

/**
 * @param {string} folder
 * @param {{ policy?: string }} options policy: the Content-Security-Policy of every answer
 * @param {(url: string) => Promise<T>} use
 * @returns {Promise<T>}
 */
export async function withServer(folder, { policy }, use) {
  const server = createServer(KEPT_OPEN, async (request, response) => {
    const { pathname } = new URL(request.url, "http://localhost");
    const path = normalize(pathname.endsWith("/") ? `${pathname}index.html` : pathname);
    const headers = policy === undefined ? {} : { "Content-Security-Policy": policy };
    if (path === "/favicon.ico") {
      response.writeHead(204).end();
      return;
    }
    try {
      const body = await readFile(join(folder, path));
      response.writeHead(200, {
        "Content-Type": TYPES[extname(path)] ?? "application/octet-stream",
        ...headers,
      });
      response.end(body);
    } catch {
      response.writeHead(404, headers).end();
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    return await use(`http://127.0.0.1:${server.address().port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

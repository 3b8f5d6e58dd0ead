import { join } from "node:path";

import { build, createServer, version as installed } from "vite";

import { freePort } from "../ports.mjs";

export const name = "Vite";
export const version = installed;

/** Builds `entry` of `source` into `main.mjs` of `output`, for `node` or a `browser`. */
export async function bundle({ source, entry, output, target }) {
  const shared = { root: source, configFile: false, logLevel: "error" };
  const file = { entryFileNames: "main.mjs" };
  if (target === "node") {
    await build({
      ...shared,
      ssr: { noExternal: true },
      build: { ssr: entry, outDir: output, minify: true, rollupOptions: { output: file } },
    });
  } else {
    const lib = { entry, formats: ["es"], fileName: () => "main.mjs" };
    await build({ ...shared, build: { lib, outDir: output, minify: true } });
  }
}

/** Builds the page `index.html` of `source`, with its scripts, into `output`. */
export async function bundlePage({ source, output }) {
  await build({ root: source, configFile: false, logLevel: "error", build: { outDir: output } });
}

/** Serves `source` as while one develops, as long as `use` runs. */
export async function withDevelopmentServer(source, use) {
  const server = await createServer({
    root: source,
    configFile: false,
    logLevel: "error",
    cacheDir: join(source, "node_modules/.vite"),
    server: { host: "127.0.0.1", port: await freePort() },
  });
  try {
    await server.listen();
    return await use(`http://127.0.0.1:${server.httpServer.address().port}`);
  } finally {
    await server.close();
  }
}

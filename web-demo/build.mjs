// Builds what the demonstration runs: `node build.mjs FOLDER [TARBALL]`. Without the packed npm
// package it builds only the programs for Node. The package is put where npm would put it:
// package-lock.json cannot know the hash of a package that was packed just now.

import { execFileSync } from "node:child_process";
import { copyFileSync, cpSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { build as bundle } from "esbuild";
import { build as buildPages } from "vite";

const root = fileURLToPath(new URL(".", import.meta.url));
const [folder, tarball] = process.argv.slice(2);

rmSync(folder, { recursive: true, force: true });
const esm = {
  bundle: true,
  format: "esm",
  target: "es2023",
  absWorkingDir: root,
  logLevel: "warning",
};

await bundle({
  ...esm,
  entryPoints: {
    stage: "stage/main.ts",
    once: "once/main.ts",
    origin: "origin/main.ts",
  },
  outdir: join(folder, "node"),
  platform: "node",
  loader: { ".sql": "text" },
  // pg is no module, and asks for its parts by `require`.
  banner: {
    js:
      'import { createRequire } from "node:module";\n' +
      "const require = createRequire(import.meta.url);",
  },
  external: ["pg-native"],
});
copyFileSync(join(root, "stage/supervise.sh"), join(folder, "node/supervise.sh"));
cpSync(join(root, "templates"), join(folder, "templates"), { recursive: true });

if (tarball !== undefined) {
  const installed = join(root, "node_modules/mailroom-verifier");
  rmSync(installed, { recursive: true, force: true });
  mkdirSync(installed, { recursive: true });
  execFileSync("tar", ["-xzf", tarball, "--strip-components=1", "-C", installed], {
    stdio: "inherit",
  });
  // As Cloudflare's tools bundle a Worker: by its conditions,
  // with `.wasm` files as modules beside the script.
  await bundle({
    ...esm,
    entryPoints: ["edge/worker.ts"],
    outdir: join(folder, "edge"),
    platform: "neutral",
    mainFields: ["module", "main"],
    conditions: ["workerd", "worker", "browser"],
    loader: { ".wasm": "copy" },
  });

  await buildPages({
    root: join(root, "pages"),
    configFile: false,
    logLevel: "warn",
    build: {
      outDir: join(folder, "pages"),
      emptyOutDir: true,
      // A script in the page itself would need a policy that allows it.
      modulePreload: { polyfill: false },
      assetsInlineLimit: 0,
      rollupOptions: {
        input: ["index.html", "inspector.html", "pipeline.html", "src/link.ts"].map((name) =>
          join(root, "pages", name),
        ),
        // The edge function names the script of its own pages.
        output: { entryFileNames: "assets/[name].js", chunkFileNames: "assets/[name].js" },
      },
    },
  });

  // No module: it runs where it stands in the page, before what comes after it is even read.
  await bundle({
    bundle: true,
    format: "iife",
    minify: true,
    target: "es2023",
    logLevel: "warning",
    entryPoints: [join(root, "pages/src/address.ts")],
    outdir: join(folder, "pages/assets"),
  });
}

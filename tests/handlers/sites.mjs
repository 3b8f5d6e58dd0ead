// The handlers as their frameworks build and serve them, each with no option that a new project of it would not have. None is
// built with a key or an address: machines that build have none.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { write } from "../runtimes/consumer.mjs";
import { deno } from "../runtimes/programs.mjs";

const WORKSPACE = fileURLToPath(new URL("../..", import.meta.url));
const START = 60_000;

/** Makes the frameworks importable in a folder into which the package is installed. */
export function addFrameworks(folder) {
  const modules = fileURLToPath(new URL("node_modules", import.meta.url));
  for (const name of readdirSync(modules).filter((found) => !found.startsWith("."))) {
    symlinkSync(join(modules, name), join(folder, "node_modules", name));
  }
}

/** Compiled as `npm create hono` sets it up for Node, and what comes out of that is run. */
export async function onHono(folder, shown, use) {
  const site = project(folder, "on-hono", shown, { "hono.ts": "hono.ts", "activation.ts": "activation.ts" });
  const compilerOptions = {
    ...{ target: "ESNext", module: "NodeNext", strict: true, verbatimModuleSyntax: true, skipLibCheck: true },
    ...{ types: ["node"], outDir: "./dist" },
  };
  write(site, "tsconfig.json", JSON.stringify({ compilerOptions }));
  built(site, "typescript/bin/tsc", []);
  const { default: app } = await import(pathToFileURL(join(site, "dist/hono.js")));
  return use((request) => app.request(request));
}

/** `next build` with the `tsconfig.json` that it writes itself, then `next start`. */
export async function onNext(folder, shown, use) {
  const at = "app/activate";
  const site = project(folder, "on-next", shown, {
    "route.ts": `${at}/route.ts`,
    "activation.ts": `${at}/activation.ts`,
  });
  write(site, "app/layout.tsx", LAYOUT);
  // What it is built from lies in more than one folder here.
  write(site, "next.config.mjs", `export default { turbopack: { root: ${JSON.stringify(WORKSPACE)} } };\n`);
  const program = built(site, "next/dist/bin/next", ["build"]);
  const server = spawn(process.execPath, [program, "start", "--hostname", "127.0.0.1", "--port", "0"], {
    cwd: site,
    env: { ...process.env, NEXT_TELEMETRY_DISABLED: "1", NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  return served(server, /Ready/, (address) => use(remote(address), address));
}

/** `vite build`, and what an adapter for Node does with that. */
export async function onSvelteKit(folder, shown, use) {
  const at = "src/routes/activate";
  const site = project(folder, "on-sveltekit", shown, {
    "+server.ts": `${at}/+server.ts`,
    "activation.ts": `${at}/activation.ts`,
  });
  write(site, "svelte.config.js", 'export default { kit: { adapter: { name: "none", adapt() {} } } };\n');
  write(
    site,
    "vite.config.js",
    'import { sveltekit } from "@sveltejs/kit/vite";\n\nexport default { plugins: [sveltekit()] };\n',
  );
  write(
    site,
    "src/app.html",
    "<!doctype html><html><head>%sveltekit.head%</head><body>%sveltekit.body%</body></html>\n",
  );
  const compilerOptions = { strict: true, skipLibCheck: true, forceConsistentCasingInFileNames: true };
  write(site, "tsconfig.json", JSON.stringify({ extends: "./.svelte-kit/tsconfig.json", compilerOptions }));
  built(site, "vite/bin/vite.js", ["build"]);
  built(site, "typescript/bin/tsc", ["--noEmit"]);

  const output = join(site, ".svelte-kit/output/server");
  const { Server } = await import(pathToFileURL(join(output, "index.js")));
  const { manifest } = await import(pathToFileURL(join(output, "manifest.js")));
  const { setResponse } = await import(
    pathToFileURL(join(folder, "node_modules/@sveltejs/kit/src/exports/node/index.js"))
  );
  const server = new Server(manifest);
  await server.init({ env: {} });
  const asked = [];
  const listener = createServer(async (request, response) => {
    asked.push(request);
    const { method, url, headers } = request;
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = chunks.length === 0 ? undefined : Buffer.concat(chunks);
    const whole = new Request(`http://${headers.host}${url}`, { method, headers, body });
    await setResponse(response, await server.respond(whole, { getClientAddress: () => "127.0.0.1" }));
  }).listen(0, "127.0.0.1");
  await once(listener, "listening");
  const address = `http://127.0.0.1:${listener.address().port}`;
  try {
    return await use(remote(address), address, asked);
  } finally {
    listener.close();
    listener.closeAllConnections();
  }
}

/** Where the packages are installed, which is where Deno looks for them. */
export async function onDeno(folder, shown, use) {
  for (const file of ["deno.ts", "activation.ts"]) write(folder, file, shown[file]);
  const server = spawn(
    deno(),
    ["run", "--allow-net=127.0.0.1", "--allow-env", "--node-modules-dir=manual", "--no-lock", "--check", "deno.ts"],
    { cwd: folder, env: { ...process.env, PORT: "0", NO_COLOR: "1" }, stdio: ["ignore", "pipe", "pipe"] },
  );
  return served(server, /Listening/, (address) => use(remote(address)));
}

/** A project below the folder into which everything is installed. */
function project(folder, name, shown, places) {
  const site = join(folder, name);
  write(mkdir(site), "package.json", JSON.stringify({ name, private: true, type: "module" }));
  for (const [file, place] of Object.entries(places)) {
    mkdir(join(site, place, ".."));
    write(site, place, shown[file]);
  }
  mkdir(join(site, "app"));
  mkdir(join(site, "src"));
  return site;
}

function mkdir(folder) {
  mkdirSync(folder, { recursive: true });
  return folder;
}

/** What the frameworks find in their environment while they build: no keys, and nobody to tell how they are used. */
const WHILE_BUILDING = {
  ...{ PATH: process.env.PATH, CI: "true", NO_COLOR: "1", WORKSPACE },
  ...{ NEXT_TELEMETRY_DISABLED: "1", NUXT_TELEMETRY_DISABLED: "1", ASTRO_TELEMETRY_DISABLED: "1" },
};

/** Runs a program of the framework, and says where it is. */
export function built(site, program, given, node = process.execPath) {
  const path = join(site, "../node_modules", program);
  const { status, stdout, stderr } = spawnSync(node, [path, ...given], {
    cwd: site,
    encoding: "utf8",
    env: { ...WHILE_BUILDING, HOME: join(site, "home") },
  });
  if (status !== 0) throw new Error(`${program} has ended with ${status}: ${stdout}${stderr}`);
  return path;
}

/** Waits until a server says where it listens, and ends it afterwards. */
export async function served(server, ready, use) {
  let said = "";
  const ended = once(server, "exit");
  const timer = setTimeout(() => server.kill(), START);
  try {
    const address = await new Promise((resolve, reject) => {
      for (const stream of [server.stdout, server.stderr]) {
        stream.on("data", (chunk) => {
          said += chunk;
          const found = /http:\/\/[^/\s]+/.exec(said)?.[0];
          if (found !== undefined && ready.test(said)) resolve(found.replace(/0\.0\.0\.0|localhost/, "127.0.0.1"));
        });
      }
      ended.then(() => reject(new Error(`the server has ended: ${said}`)));
    });
    clearTimeout(timer);
    return await use(address);
  } finally {
    clearTimeout(timer);
    server.kill();
    await ended;
  }
}

/** Answers by asking a server: as its own page does, so that what it says of its origin fits. */
function remote(address) {
  return async (request) => {
    const { method, url } = request;
    const headers = new Headers(request.headers);
    if (headers.has("Origin")) headers.set("Origin", address);
    const body = method === "POST" ? await request.text() : undefined;
    return fetch(url.replace("http://127.0.0.1", address), { method, headers, body });
  };
}

const LAYOUT = `export default function Layout({ children }: { children: React.ReactNode }) {
  return (
    <html lang="en">
      <body>{children}</body>
    </html>
  );
}
`;

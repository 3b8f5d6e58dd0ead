// Each framework as a new project of it has it; `code` is the line of the README, put where it
// says. The application's own module `database.js` asks the test.

import { bun, deno } from "../runtimes/programs.mjs";

/** The callback of a server that listens, which says where. */
const SAYS_PORT = `function () {
  console.log("Listening on http://127.0.0.1:" + this.address().port);
}`;

const node = (text) => ({ files: { "main.js": text }, start: ["main.js"] });

/** What has built a handler of `Request`, served as its documentation says. */
const bySrvx = (built) => [
  "../node_modules/srvx/bin/srvx.mjs",
  "serve",
  "--prod",
  "--host",
  "127.0.0.1",
  built,
];

/** By the first words of a row of the README's table. */
export const SITES = {
  "Node.js": (code) =>
    node(`import { createServer } from "node:http";
import { toNodeListener } from "mailroom-verifier/handler";
import { links } from "./links.js";

${code.replace(".listen(8000);", `\n  .listen(0, "127.0.0.1", ${SAYS_PORT});`)}
`),
  Express: (code) =>
    node(`import express from "express";
import { toNodeListener } from "mailroom-verifier/handler";
import { links } from "./links.js";

const app = express();
${code}
app.use(express.urlencoded());
app.listen(0, "127.0.0.1", ${SAYS_PORT});
`),
  Fastify: (code) =>
    node(`import fastify from "fastify";
import { toNodeListener } from "mailroom-verifier/handler";
import { links } from "./links.js";

const app = fastify();
// The application has forms of its own, which it parses.
const form = "application/x-www-form-urlencoded";
const parse = (_, body, done) => done(null, new URLSearchParams(body));
app.addContentTypeParser(form, { parseAs: "string" }, parse);
${code}
console.log("Listening on", await app.listen({ host: "127.0.0.1", port: 0 }));
`),
  Hono: (code) => ({
    files: {
      "main.js": `import { Hono } from "hono";
import { links } from "./links.js";

const app = new Hono();
${code}
export default app;
`,
    },
    worker: "main.js",
  }),
  // As the row says of the key: without the modules of Node there is no `process`.
  "Cloudflare Workers": (code) => ({
    files: { "main.js": `import { links } from "./links.js";\n\n${code}\n` },
    worker: "main.js",
    flags: [],
    linksWith: (text) =>
      `import { env } from "cloudflare:workers";\n${text.replace("process.env", "env")}`,
  }),
  Deno: (code) => ({
    files: {
      "main.js": `import { links } from "./links.js";

${code.replace("serve(", 'serve({ hostname: "127.0.0.1", port: 0 }, ')}
`,
    },
    program: deno,
    start: [
      "run",
      "--allow-net=127.0.0.1",
      "--allow-env",
      "--node-modules-dir=manual",
      "--no-lock",
      "main.js",
    ],
  }),
  Bun: (code) => ({
    files: {
      "main.js": `import { links } from "./links.js";

const server = ${code.replace("{ ", '{ hostname: "127.0.0.1", port: 0, ')}
console.log(\`Listening on \${server.url}\`);
`,
    },
    program: bun,
    start: ["run", "main.js"],
  }),
  // Nuxt has an older one, which its own modules find by the name.
  h3: (code) =>
    node(`import { H3, serve } from "h3-2";
import { links } from "./links.js";

const app = new H3();
${code}
const server = serve(app, { hostname: "127.0.0.1", port: 0, silent: true });
await server.ready();
console.log("Listening on", server.url);
`),
  Koa: (code) =>
    node(`import { bodyParser } from "@koa/bodyparser";
import Koa from "koa";
import { toNodeListener } from "mailroom-verifier/handler";
import { links } from "./links.js";

const app = new Koa();
app.use(bodyParser());
${code}
app.listen(0, "127.0.0.1", ${SAYS_PORT});
`),
  // With the parser of bodies that Nest has by default.
  NestJS: (code) => ({
    files: {
      "tsconfig.json": JSON.stringify({
        compilerOptions: {
          ...{ module: "nodenext", target: "es2022", outDir: "dist", rootDir: ".", strict: true },
          ...{ experimentalDecorators: true, emitDecoratorMetadata: true, skipLibCheck: true },
          ...{ allowJs: true, checkJs: false, types: ["node"] },
        },
        include: ["main.ts", "links.js", "database.js"],
      }),
      "main.ts": `import "reflect-metadata";
import { All, Controller, Module, Req, Res } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { toNodeListener } from "mailroom-verifier/handler";
import type { NodeRequest, NodeResponse } from "mailroom-verifier/handler";
import { links } from "./links.js";

@Controller()
class LinksController {
${code}
}

@Module({ controllers: [LinksController] })
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: ["error", "warn"] });
await app.listen(Number(process.env["PORT"]), "127.0.0.1");
console.log("Listening on", await app.getUrl());
`,
    },
    build: ["typescript/bin/tsc", "--project", "tsconfig.json"],
    start: ["dist/main.js"],
  }),
  Elysia: (code) => ({
    files: {
      "main.js": `import { Elysia } from "elysia";
import { links } from "./links.js";

const app = new Elysia();
// Something of the application looks at every body.
app.onBeforeHandle(({ body, set }) => {
  set.headers["x-body"] = typeof body;
});
${code}
app.listen({ hostname: "127.0.0.1", port: 0 });
console.log(\`Listening on \${app.server.url}\`);
`,
    },
    program: bun,
    start: ["run", "main.js"],
  }),
  "TanStack Start": (code) => ({
    files: {
      "vite.config.js": `import { tanstackStart } from "@tanstack/react-start/plugin/vite";

export default { plugins: [tanstackStart()] };
`,
      "src/router.jsx": `import { createRouter } from "@tanstack/react-router";
import { routeTree } from "./routeTree.gen";

export const getRouter = () => createRouter({ routeTree });
`,
      "src/routes/__root.jsx": `import {
  createRootRoute,
  HeadContent,
  Scripts,
} from "@tanstack/react-router";

export const Route = createRootRoute({
  shellComponent: ({ children }) => (
    <html lang="en"><head><HeadContent /></head><body>{children}<Scripts /></body></html>
  ),
});
`,
      "src/routes/activate.js": `import { createFileRoute } from "@tanstack/react-router";
import { links } from "../links.js";

${code}
`,
    },
    sources: "src",
    build: ["vite/bin/vite.js", "build"],
    start: bySrvx("dist/server/server.js"),
  }),
  SolidStart: (code) => ({
    files: {
      "vite.config.js": `import { solidStart } from "@solidjs/start/config";

export default { plugins: [solidStart()] };
`,
      "src/app.jsx": "export default () => <p>Hello</p>;\n",
      "src/entry-client.jsx": `import { mount, StartClient } from "@solidjs/start/client";

mount(() => <StartClient />, document.getElementById("app"));
`,
      "src/entry-server.jsx": `import { createHandler, StartServer } from "@solidjs/start/server";

const document = ({ assets, children, scripts }) => (
  <html lang="en">
    <head>{assets}</head>
    <body><div id="app">{children}</div>{scripts}</body>
  </html>
);
export default createHandler(() => <StartServer document={document} />);
`,
      "src/routes/activate.js": `import { links } from "../links.js";\n\n${code}\n`,
    },
    sources: "src",
    build: ["vite/bin/vite.js", "build"],
    start: bySrvx("dist/server/entry-server.js"),
  }),
  SvelteKit: (code) => ({
    files: {
      "svelte.config.js": `import adapter from "@sveltejs/adapter-node";

export default { kit: { adapter: adapter() } };
`,
      "vite.config.js": `import { sveltekit } from "@sveltejs/kit/vite";

export default { plugins: [sveltekit()] };
`,
      "src/app.html":
        "<!doctype html><html><head>%sveltekit.head%</head><body>%sveltekit.body%</body></html>\n",
      "src/routes/activate/+server.js": `import { links } from "../../links.js";\n\n${code}\n`,
    },
    sources: "src",
    build: ["vite/bin/vite.js", "build"],
    start: ["build/index.js"],
  }),
  Astro: (code) => ({
    files: {
      "astro.config.mjs": `import node from "@astrojs/node";

// Another framework beside it has another version of "cookie".
export default {
  output: "server",
  adapter: node({ mode: "standalone" }),
  vite: { ssr: { noExternal: ["cookie"] } },
};
`,
      "src/pages/activate.js": `import { links } from "../links.js";\n\n${code}\n`,
    },
    sources: "src",
    build: ["astro/bin/astro.mjs", "build"],
    start: ["dist/server/entry.mjs"],
  }),
  "React Router": (code) => ({
    files: {
      "react-router.config.js": "export default { ssr: true };\n",
      "vite.config.js": `import { reactRouter } from "@react-router/dev/vite";

export default { plugins: [reactRouter()] };
`,
      "app/routes.js": `import { route } from "@react-router/dev/routes";

export default [route("activate", "activate.js")];
`,
      "app/root.jsx": `import { Outlet, Scripts } from "react-router";

export default function Root() {
  return <html lang="en"><body><Outlet /><Scripts /></body></html>;
}
`,
      "app/activate.js": `import { links } from "./links.js";\n\n${code}\n`,
    },
    sources: "app",
    build: ["@react-router/dev/bin.cjs", "build"],
    start: ["../node_modules/@react-router/serve/bin.cjs", "build/server/index.js"],
  }),
  "Next.js": (code) => ({
    files: {
      // What it is built from lies in more than one folder here.
      "next.config.mjs": "export default { turbopack: { root: process.env.WORKSPACE } };\n",
      "app/layout.jsx": `export default function Layout({ children }) {
  return <html lang="en"><body>{children}</body></html>;
}
`,
      "app/activate/route.js": `import { links } from "../../links.js";\n\n${code}\n`,
    },
    build: ["next/dist/bin/next", "build"],
    start: [
      "../node_modules/next/dist/bin/next",
      "start",
      "--hostname",
      "127.0.0.1",
      "--port",
      "0",
    ],
  }),
  Nuxt: (code) => ({
    files: {
      "nuxt.config.js": 'export default { compatibilityDate: "2025-05-31", telemetry: false };\n',
      "app/app.vue": "<template><p>Hello</p></template>\n",
      "server/routes/activate.js": `import { links } from "../../links.js";\n\n${code}\n`,
    },
    build: ["nuxt/bin/nuxt.mjs", "build"],
    start: [".output/server/index.mjs"],
  }),
};

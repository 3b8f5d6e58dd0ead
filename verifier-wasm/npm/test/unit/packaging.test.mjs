// The tarball as npm and its users' tools see it.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { deno } from "../runtimes/programs.mjs";
import { reachable } from "../../scripts/declarations.mjs";
import {
  bundleOf,
  ENTRIES,
  edgeOf,
  FOR_WORKERD,
  folders,
  MODULES,
  MODULES_ONLY,
  ofPackage,
} from "../../scripts/entries.mjs";
import { errorsDocument } from "../../scripts/reasons.mjs";
import { consumer, installed, load, repository, run, sources, tarball } from "./consumer.mjs";

const checker = (name) => join(sources, "test/node_modules/.bin", name);

test("publint finds nothing", async () => {
  const { status, stdout, stderr } = await run(checker("publint"), ["--strict", tarball]);
  assert.equal(status, 0, stdout + stderr);
});

test("every entry has types that fit what is imported", async () => {
  // A file of WebAssembly is never required. What is required is imported, too, so that the second
  // look is for these files alone.
  const files = ["verifier.wasm", "public.wasm"];
  for (const options of [
    ["--profile", "node16", "--exclude-entrypoints", ...files],
    ["--profile", "esm-only", "--entrypoints", ...files],
  ]) {
    const { status, stdout, stderr } = await run(checker("attw"), [tarball, ...options]);
    assert.equal(status, 0, stdout + stderr);
  }
});

test("the tarball holds what is used, and no sources, tests or tools", () => {
  const files = readdirSync(installed, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, path, name }) => join(parentPath ?? path, name).slice(installed.length + 1))
    .filter((name) => !/^docs\/[\w./-]+\.md$/.test(name));
  const scripts = (names) => names.map((name) => `dist/${name}`);
  const declared = scripts(reachable(join(installed, "dist")));
  assert.ok(declared.length > ENTRIES.length);
  const required = ENTRIES.map(bundleOf);
  const expected = [
    ...["LICENSE", "MIGRATING.md", "README.md", "REFERENCE.md", "errors.md", "package.json"],
    "users.sql",
    ...Object.keys(folders()),
    ...scripts([...required, ...MODULES_ONLY.map(bundleOf), ...FOR_WORKERD.map(edgeOf)]),
    ...scripts(MODULES.flatMap((module) => [`${module}.wasm`, `${module}.d.wasm.ts`])),
    ...declared,
    // What is declared for modules is declared for CommonJS, too.
    ...declared.map((name) => name.replace("dist", "dist/cjs")),
    ...scripts([...required, "package.json"].map((name) => `cjs/${name}`)),
  ];
  assert.deepEqual(files.toSorted(), expected.toSorted());
});

test("package.json names the entries that there are", () => {
  const { exports, main, types, typesVersions } = load("mailroom-verifier/package.json");
  assert.deepEqual({ exports, main, types, typesVersions }, ofPackage(), "run npm run entries");
  for (const [file, content] of Object.entries(folders())) {
    assert.deepEqual(JSON.parse(readFileSync(join(installed, file), "utf8")), content);
    assert.ok(!existsSync(join(sources, file)), `${file} is left where it was packed`);
  }
});

test("errors.md has the reasons that there are", () => {
  const text = readFileSync(join(installed, "errors.md"), "utf8");
  assert.equal(text, errorsDocument(), "run npm run reasons");
});

test("npm would publish it as it is, with provenance, and warns of nothing", async () => {
  const { status, stdout, stderr } = await run("npm", [
    "publish",
    "--dry-run",
    "--offline",
    "--json",
    tarball,
  ]);
  assert.equal(status, 0, stderr);
  // That nobody is logged in npm says, too.
  assert.doesNotMatch(stderr, /auto-correct|errors corrected|invalid|package\.json/i);
  assert.match(stdout, /"name": "mailroom-verifier"/);
  const {
    repository: source,
    homepage,
    bugs,
    author,
    publishConfig,
  } = load("mailroom-verifier/package.json");
  assert.ok(source.url.startsWith("git+https://") && source.directory === "verifier-wasm/npm");
  assert.ok([homepage, bugs].every((address) => address.startsWith("https://")) && author !== "");
  assert.deepEqual(publishConfig, { access: "public", provenance: true });
});

test("Deno would publish it on JSR as it is, without a network", async () => {
  const { name, version, license, exports } = JSON.parse(
    readFileSync(join(sources, "jsr.json"), "utf8"),
  );
  const own = load("mailroom-verifier/package.json");
  assert.deepEqual([name, version, license], ["@mailroom/verifier", own.version, own.license]);
  const entries = Object.entries(own.exports).filter(([, file]) => file["module-sync"]);
  const expected = entries.map(([entry, file]) => [
    entry,
    file["module-sync"].replace("dist", "dist/jsr"),
  ]);
  assert.deepEqual(exports, Object.fromEntries(expected.filter(([entry]) => entry !== "./slim")));
  const nowhere = "http://127.0.0.1:9";
  const env = {
    DENO_DIR: join(consumer, "deno"),
    HTTPS_PROXY: nowhere,
    HTTP_PROXY: nowhere,
    NO_COLOR: "1",
  };
  const asked = ["publish", "--dry-run", "--allow-dirty"];
  const { status, stderr } = await run(deno(), asked, { cwd: sources, env });
  assert.equal(status, 0, stderr);
  assert.match(stderr, /Success/);
  assert.doesNotMatch(stderr, /warning/i);
});

test("what JSR gets verifies a link in Deno, and its types are those of the package", async () => {
  const program = join(consumer, "jsr.ts");
  writeFileSync(
    program,
    `import { createVerifier, type VerifiedToken } from "${join(sources, "dist/jsr/main.js")}";
const key: string = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const result = createVerifier({ keys: key }).tryVerify(
  "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8Yy3ZHbMkQ2XWGvJ8E_SkwT_9TE3jLsNfIndZoIyAPTQ",
  { action: "activate" },
);
if (!result.ok) throw new Error(result.reason);
const token: VerifiedToken = result.token;
// @ts-expect-error It has none of that name.
token.noSuchProperty;
console.log(token.consumedId.length);
`,
  );
  const env = { DENO_DIR: join(consumer, "deno") };
  const { status, stdout, stderr } = await run(deno(), ["run", "--check", "--no-config", program], {
    env,
  });
  assert.equal(`${status} ${stdout}`, "0 16\n", stderr);
});

const workflows = join(repository, ".github/workflows");
const workflowOf = (name) => readFileSync(join(workflows, name), "utf8");
/** The jobs of a workflow, by name. */
const jobsOf = (workflow) =>
  new Map(
    workflow
      .slice(workflow.indexOf("\njobs:\n") + 7)
      .split(/^(?= {2}\w)/m)
      .filter((job) => job.trim() !== "")
      .map((job) => [/\w+/.exec(job)[0], job]),
  );

/** What a workflow may have beside reading; the key that signs a release is a secret. */
const RIGHTS = {
  // The book is a branch of its own, which one job pushes: a test of that workflow is below.
  "book.yml": ["contents: write"],
  "publish.yml": ["id-token: write"],
  "release.yml": [
    "attestations: write",
    "contents: write",
    "id-token: write",
    "packages: write",
    "secrets.MINISIGN_KEY",
    "secrets.MINISIGN_PASSWORD",
  ],
};

test("every workflow pins what it runs, and has no right or secret but those of its jobs", () => {
  for (const name of readdirSync(workflows)) {
    const workflow = workflowOf(name);
    for (const [, action] of workflow.matchAll(/uses: (.+)/g)) {
      assert.match(action, /^[\w-]+\/[\w-]+@[\da-f]{40} # v\d+\.\d+\.\d+$/);
    }
    assert.doesNotMatch(workflow, /pull_request_target/);
    assert.match(workflow, /^permissions: \{\}$/m);
    const rights = [
      ...workflow.matchAll(/([\w-]+: (?:read|write)(?:-all)?|secrets\b[.\w[\]"']*)/g),
    ].map(([, right]) => right);
    const allowed = ["contents: read", ...(RIGHTS[name] ?? [])];
    assert.deepEqual(
      rights.filter((right) => !allowed.includes(right)),
      [],
      name,
    );
  }
});

test("the jobs that sign and publish a release have nothing but what another job has built", () => {
  const jobs = jobsOf(workflowOf("release.yml"));
  for (const [name, job] of jobs) {
    if (!/: write\b|secrets\b/.test(job)) continue;
    assert.match(job, /environment: publish$/m, name);
    assert.doesNotMatch(job, /actions\/checkout|\b(?:cargo|npm|npx|pip)\b/, name);
    assert.match(job, /sha256sum --check --strict SHA256SUMS/, name);
  }
});

test("the job that pushes the book runs nothing of a dependency", () => {
  const jobs = jobsOf(workflowOf("book.yml"));
  assert.deepEqual([...jobs.keys()], ["build", "publish"]);
  assert.doesNotMatch(jobs.get("build"), /write|github\.token/);
  assert.match(jobs.get("publish"), /needs: build\n/);
  assert.doesNotMatch(jobs.get("publish"), /checkout|cargo|npm/);
});

test("a job that can publish runs nothing of a dependency", () => {
  const workflow = workflowOf("publish.yml");
  const jobs = jobsOf(workflow);
  assert.deepEqual([...jobs.keys()], ["build", "npm", "jsr"]);
  assert.doesNotMatch(jobs.get("build"), /id-token|environment/);
  for (const name of ["npm", "jsr"]) {
    const job = jobs.get(name);
    assert.match(job, /needs: build\n/);
    assert.match(job, /environment: publish\n/);
    assert.doesNotMatch(job, /checkout|cargo|npm (?:ci|install|run|exec)|npx/);
    const commands = [...job.matchAll(/run: (.+)/g)].map(([, command]) => command);
    assert.deepEqual(commands, [
      name === "jsr"
        ? "deno publish"
        : "npm publish --ignore-scripts --provenance --access public ./mailroom-verifier-*.tgz",
    ]);
  }
  const { devDependencies } = JSON.parse(readFileSync(join(sources, "test/package.json"), "utf8"));
  assert.equal(/deno-version: (.+)/.exec(workflow)[1], devDependencies.deno);
});

test("what that workflow hands over is all that JSR needs", async () => {
  const [, command] = /( +node --print[\s\S]*?jsr\.json)\n/.exec(workflowOf("publish.yml"));
  const folder = join(consumer, "jsr-handed-over");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  const collect = command.replace("../../jsr", folder);
  const collected = await run("bash", ["-e", "-c", collect], { cwd: sources });
  assert.equal(collected.status, 0, collected.stderr);
  const nowhere = "http://127.0.0.1:9";
  const env = { DENO_DIR: join(consumer, "deno"), HTTPS_PROXY: nowhere, HTTP_PROXY: nowhere };
  // Whoever runs this may not have committed a change yet.
  const args = ["publish", "--dry-run", "--allow-dirty"];
  const { status, stderr } = await run(deno(), args, { cwd: folder, env });
  assert.equal(status, 0, stderr);
  for (const file of ["REFERENCE.md", "LICENSE", "dist/jsr/handler.js"]) {
    assert.ok(stderr.includes(`/${file} `), stderr);
  }
});

test("the reference has a page for each entry, and TypeDoc warns of nothing", async () => {
  const pages = readdirSync(join(installed, "docs"), { recursive: true });
  for (const page of ENTRIES) {
    assert.ok(pages.includes(`${page}.md`), pages.join());
  }
  const options = [
    "--options",
    join(sources, "typedoc.config.mjs"),
    "--emit",
    "none",
    "--treatWarningsAsErrors",
    "--tsconfig",
    join(sources, "tsconfig.json"),
  ];
  const program = join(sources, "node_modules/typedoc/bin/typedoc");
  const { status, stdout, stderr } = await run(process.execPath, [program, ...options]);
  assert.equal(status, 0, stdout + stderr);
});

test("the package depends on nothing and runs nothing when it is installed", () => {
  const {
    dependencies,
    peerDependencies,
    optionalDependencies,
    scripts = {},
  } = load("mailroom-verifier/package.json");
  assert.deepEqual(
    [dependencies, peerDependencies, optionalDependencies],
    [undefined, undefined, undefined],
  );
  assert.ok(!Object.keys(scripts).some((name) => /install|prepare|publish/.test(name)));
});

test(
  "each class of errors is defined once in the package, " +
    "and once more for what cannot require modules",
  () => {
    for (const folder of ["dist", "dist/cjs"]) {
      for (const name of readdirSync(join(installed, folder)).filter((file) =>
        file.endsWith(".js"),
      )) {
        const text = readFileSync(join(installed, folder, name), "utf8");
        assert.equal(text.includes('reason = "ERR_'), name === "errors.js", name);
      }
    }
  },
);

test("of what a program requires and imports, there is one copy", async () => {
  const names = Object.keys(load("mailroom-verifier/package.json").exports).filter(
    (name) => !/\.(?:wasm|json)$/.test(name),
  );
  const pairs = names
    .map((name) => name.replace(".", "mailroom-verifier"))
    .map((name) => {
      const isImported = `([of, value]) => imported["${name}"][of] === value`;
      return `Object.entries(require("${name}")).every(${isImported})`;
    });
  const imports = names
    .map((name) => name.replace(".", "mailroom-verifier"))
    .map((name) => `"${name}": await import("${name}")`);
  const program = `(async () => {
    const imported = {${imports}};
    console.log(String([${pairs}]));
  })();`;
  const { stdout, stderr } = await run(process.execPath, [
    "--input-type=commonjs",
    "--eval",
    program,
  ]);
  assert.equal(stdout.trim(), names.map(() => "true").join(), stderr);
});

test("the lock file names versions and no registry", () => {
  const lock = readFileSync(join(sources, "package-lock.json"), "utf8");
  assert.doesNotMatch(lock, /"resolved"/);
  const { devDependencies } = JSON.parse(readFileSync(join(sources, "package.json"), "utf8"));
  for (const version of Object.values(devDependencies))
    assert.match(version, /^(?:npm:\w+@)?\d+\.\d+\.\d+$/);
});

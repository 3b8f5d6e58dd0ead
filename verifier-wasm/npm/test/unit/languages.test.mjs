// The languages of the handler's pages, which lie in a file of their own.

import assert from "node:assert/strict";
import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

import { build } from "esbuild";

import { consumer, genuine, installed, load } from "./consumer.mjs";

const { token, key } = genuine.find(({ action }) => action === "activate");

/** What a handler of a copy of the package answers, by language, and what it reported. */
async function answersOf({ createLinkHandler }, languages, options = {}) {
  const { createMemoryStore, createVerifier } = load("mailroom-verifier");
  const errors = [];
  const handler = createLinkHandler({
    verifier: createVerifier({ keys: key }),
    store: createMemoryStore({ capacity: 10 }),
    redeem: () => "ok",
    onError: (error) => errors.push(error),
    ...options,
  });
  const answers = [];
  for (const language of languages) {
    const headers = { "Accept-Language": language };
    const request = new Request(`https://a.example/activate?token=${token}`, { headers });
    const response = await handler(request);
    const [, button] = /<button>(.*?)<\/button>/.exec(await response.text());
    answers.push(`${response.headers.get("Content-Language")} ${button}`);
  }
  return { answers, errors };
}

test("where no language can be loaded, pages are in English, which is told once", async () => {
  const copy = join(consumer, "without-languages");
  rmSync(copy, { recursive: true, force: true });
  cpSync(join(installed, "dist"), copy, { recursive: true });
  cpSync(join(installed, "package.json"), join(copy, "package.json"));
  rmSync(join(copy, "languages.js"));
  const handler = await import(pathToFileURL(join(copy, "handler.js")).href);
  const texts = { en: { actions: { activate: { button: "Go" } } }, da: { close: "Farvel" } };
  const { answers, errors } = await answersOf(handler, ["en", "de", "fr", "da"], { texts });
  assert.deepEqual(answers, ["en Go", "en Go", "en Go", "da Activate my account"]);
  assert.deepEqual(
    errors.map(({ code }) => code),
    ["ERR_MODULE_NOT_FOUND"],
  );
});

test("a program that requires the package has all languages", async () => {
  const { answers, errors } = await answersOf(load("mailroom-verifier/handler"), ["de", "en"]);
  assert.deepEqual(answers, ["de Mein Konto aktivieren", "en Activate my account"]);
  assert.deepEqual(errors, []);
  const required = load(join(installed, "dist/cjs/handler.js"));
  assert.deepEqual((await answersOf(required, ["pl"])).answers, ["pl Aktywuj moje konto"]);
});

test("the handler in English speaks other languages only where it is given them", async () => {
  const english = load("mailroom-verifier/handler/english");
  assert.deepEqual((await answersOf(english, ["de"])).answers, ["en Activate my account"]);
  const { de } = load("mailroom-verifier/languages");
  const { answers } = await answersOf(english, ["de", "fr"], { texts: { de } });
  assert.deepEqual(answers, ["de Mein Konto aktivieren", "en Activate my account"]);
});

test("texts of an imported language are those of one's own, and are loaded by nobody", async () => {
  const { de } = load("mailroom-verifier/languages");
  const texts = { de: { ...de, close: "Fertig." } };
  const { answers } = await answersOf(load("mailroom-verifier/handler"), ["de"], { texts });
  assert.deepEqual(answers, ["de Mein Konto aktivieren"]);
});

test("each action of a new installation has a page of its own in every language", () => {
  const languages = Object.entries(load("mailroom-verifier/languages"));
  assert.ok(languages.length >= 7);
  const seen = new Set();
  for (const [language, { actions }] of languages) {
    for (const action of ["activate", "recover", "sign_in", "invite", "change_email", "other"]) {
      const texts = Object.hasOwn(actions, action) ? actions[action] : {};
      for (const name of ["title", "text", "button", "done"]) {
        assert.ok(texts[name]?.length > 3, `${language} ${action} ${name}`);
      }
      assert.ok(!seen.has(texts.text), texts.text);
      seen.add(texts.text);
    }
  }
});

test("a bundler that splits keeps the languages out of what a program starts with", async () => {
  const { metafile } = await build({
    stdin: {
      contents: 'export { createLinkHandler } from "mailroom-verifier/handler";',
      resolveDir: consumer,
    },
    bundle: true,
    splitting: true,
    write: false,
    metafile: true,
    format: "esm",
    outdir: join(consumer, "split"),
    logLevel: "error",
  });
  const outputs = Object.entries(metafile.outputs);
  const [name, { imports }] = outputs.find(([, { entryPoint }]) => entryPoint === "<stdin>");
  const late = imports.filter(({ kind }) => kind === "dynamic-import").map(({ path }) => path);
  assert.equal(late.length, 1, name);
  const [, languages] = outputs.find(([path]) => path === late[0]);
  assert.ok(Object.keys(languages.inputs).some((input) => input.endsWith("dist/languages.js")));
});

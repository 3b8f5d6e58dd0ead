#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { stderr, stdin, stdout } from "node:process";
import { HELP, parseArguments } from "./cli/arguments.js";
import { loadKeys } from "./cli/keys.js";
import { lines } from "./cli/lines.js";
import { type Question, report } from "./cli/report.js";
import { UsageError } from "./cli/usage_error.js";
import { Engine } from "./engine.js";

/** The exit status: 0 if every token is genuine, 1 if one is not, 2 if there could be no verdict. */
async function main(): Promise<0 | 1 | 2> {
  const command = parseArguments(process.argv.slice(2));
  if (command === "help") return print(HELP, 0);
  if (command === "version") return print(version(), 0);
  const { token, action, code } = command;
  const engine = new Engine(new WebAssembly.Instance(new WebAssembly.Module(packaged("./verifier.wasm"))));
  const keys = loadKeys(engine, command.keyFile, process.env);
  const judge = async (question: Question, separator: string): Promise<boolean> => {
    const { text, genuine } = report(engine, keys, question);
    await print(separator + text, 0);
    return genuine;
  };
  if (token !== "-") return (await judge({ token, action, code }, "")) ? 0 : 1;

  let seen = 0;
  let genuine = true;
  for await (const line of lines(stdin)) {
    const [token = "", ...rest] = line.text.split(" ");
    const length = line.length > line.text.length ? line.length : undefined;
    const question = { token, action, code: rest.length > 0 ? rest.join(" ") : code, length };
    genuine = (await judge(question, seen++ > 0 ? "\n" : "")) && genuine;
  }
  if (seen === 0) throw new UsageError("there is no token on standard input; write one a line");
  return genuine ? 0 : 1;
}

function packaged(file: string): Buffer<ArrayBuffer> {
  return readFileSync(new URL(file, import.meta.url)) as Buffer<ArrayBuffer>;
}

function version(): string {
  const { name, version } = JSON.parse(packaged("../package.json").toString()) as {
    name: string;
    version: string;
  };
  return `${name} ${version}\n`;
}

/** Waits until a slow reader has taken the text, so that a long input is not collected in memory. */
function print<Status>(text: string, status: Status): Promise<Status> {
  return new Promise((resolve) => {
    if (stdout.write(text)) resolve(status);
    else stdout.once("drain", () => resolve(status));
  });
}

// Whoever stops reading, as `head` does, has what they wanted; there is no verdict on the rest.
stdout.on("error", () => process.exit(2));

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  stderr.write(`mailroom-verifier: ${error.message}\n`);
  process.exitCode = 2;
}

#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { stderr, stdin, stdout } from "node:process";
import { HELP, parseArguments } from "../cli/arguments.js";
import { loadKeys } from "../cli/keys.js";
import { lines } from "../cli/lines.js";
import { type Question, report } from "../cli/report.js";
import { UsageError } from "../cli/usage_error.js";
import { Engine, SHARED_KEY } from "../wasm/engine.js";

/**
 * The exit status: 0 if every token is genuine, 1 if one is not, 2 if there could be no verdict.
 */
async function main(): Promise<0 | 1 | 2> {
  const command = parseArguments(process.argv.slice(2));
  if (command === "help") return print(HELP, 0);
  if (command === "version") return print(version(), 0);
  const { token, action, code, binding } = command;
  const engine = startEngine();
  const keys = loadKeys(engine, command.keyFile, process.env);
  const judge = async (question: Question, separator: string): Promise<boolean> => {
    const { text, genuine } = report(engine, keys, question);
    await print(separator + text, 0);
    return genuine;
  };
  if (token !== "-") return (await judge({ token, action, code, binding }, "")) ? 0 : 1;

  let seen = 0;
  let genuine = true;
  for await (const line of lines(readable(stdin))) {
    const [token = "", ...rest] = line.text.split(" ");
    const question =
      rest.length > 0
        ? { token, action, code: rest.join(" "), binding }
        : { token, action, code, binding, length: line.length };
    genuine = (await judge(question, seen++ > 0 ? "\n" : "")) && genuine;
  }
  if (seen === 0) throw new UsageError("there is no token on standard input; write one a line");
  return genuine ? 0 : 1;
}

function startEngine(): Engine {
  const bytes = packaged("./verifier.wasm");
  try {
    return new Engine(new WebAssembly.Instance(new WebAssembly.Module(bytes)), SHARED_KEY);
  } catch {
    throw new UsageError(
      "WebAssembly cannot be started; call Node without flags that switch it off",
    );
  }
}

async function* readable(
  stream: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    yield* stream;
  } catch (error) {
    throw new UsageError(`standard input cannot be read: ${reason(error)}`);
  }
}

/** Names what an operating system refused, such as `EISDIR`. */
function reason(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? "no reason is given";
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

/**
 * Waits until a slow reader has taken the text, so that a long input is not collected in memory.
 */
function print<Status>(text: string, status: Status): Promise<Status> {
  return new Promise((resolve) => {
    if (stdout.write(text)) resolve(status);
    else stdout.once("drain", () => resolve(status));
  });
}

function end(message: string): void {
  stderr.write(`mailroom-verifier: ${message}\n`);
  process.exitCode = 2;
}

stdout.on("error", (error) => {
  // Whoever stops reading, as `head` does, has what they wanted; there is no verdict on the rest.
  if (reason(error) !== "EPIPE") end(`standard output cannot be written: ${reason(error)}`);
  process.exit(2);
});
// The exit status still says it.
stderr.on("error", () => {});

try {
  process.exitCode = await main();
} catch (error) {
  // Left to Node, a fault of this program would end it with 1,
  // which says that a token is not genuine.
  end(
    error instanceof UsageError
      ? error.message
      : `this should not happen: ${(error as Error).stack}`,
  );
}

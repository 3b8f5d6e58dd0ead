// A module, changed so that it reports every decision and every address on its way.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { consumer, installed, sources } from "./consumer.mjs";

/** Becomes a jump or a conditional move; the condition is the last operand. */
const DECISION = /^(?:br_if|br_table|select)$/;
/** Touches memory; the first operand is the address. */
const ACCESS = /^(?:i32|i64|f64|v128)\.(?:load|store)/;
/** Touches memory; all operands are addresses and lengths. */
const BULK = /^memory\.(?:copy|fill|grow)$/;
/** Takes different times for different operands on some machines. */
const DIVISION = /^(?:i32|i64)\.(?:div|rem)_/;
/** Instructions that would hide something from the trace. */
const CALLS = /^(?:call_indirect|call_ref|return_call|br_on|try|throw)/;
const LOADS = /^(?:table\.|memory\.init|f32\.(?:load|store))/;

/** The text of the module in the installed package. */
export function packaged() {
  return tool("wasm-dis", [join(installed, "dist/verifier.wasm")]).toString();
}

/**
 * Starts the module of that text in its changed form.
 *
 * @returns `exports`, the number of `places` that report, and `trace`, which runs something and
 * returns what was reported meanwhile: place, value, place, value…
 */
export function start(text) {
  const module = parse(text);
  let places = 0;
  const report = (operand) => ["call", "$report", ["i32.const", String(places++)], operand];
  rewrite(module, report);
  const type = ["func", "$report", ["param", "i32", "i32"], ["result", "i32"]];
  module.splice(1, 0, ["import", '"test"', '"report"', type]);
  const binary = join(consumer, "traced.wasm");
  tool("wasm-as", ["-", "-o", binary], print(module));

  let events = [];
  const imports = {
    test: {
      report(place, value) {
        events.push(place, value);
        return value;
      },
    },
  };
  const { exports } = new WebAssembly.Instance(
    new WebAssembly.Module(readFileSync(binary)),
    imports,
  );
  const trace = (action) => {
    events = [];
    action();
    return events;
  };
  return { exports, trace, places };
}

function tool(name, args, input) {
  const program = join(sources, "node_modules/.bin", name);
  return execFileSync(program, ["--all-features", ...args], { input, maxBuffer: 1 << 28 });
}

/** Wraps conditions and addresses into calls of `report`, in place. */
function rewrite(node, report) {
  if (!Array.isArray(node)) return;
  const [head] = node;
  if (CALLS.test(head) || LOADS.test(head)) throw new Error(`${head} cannot be traced`);
  node.forEach((child) => {
    rewrite(child, report);
  });
  const operands = [...node.keys()].filter((index) => isInstruction(node[index]));
  let reported = [];
  if (head === "if") reported = operands.slice(0, 1);
  else if (DECISION.test(head)) reported = operands.slice(-1);
  else if (ACCESS.test(head)) reported = operands.slice(0, 1);
  else if (BULK.test(head) || DIVISION.test(head)) reported = operands;
  for (const index of reported) node[index] = report(node[index]);
}

function isInstruction(node) {
  return Array.isArray(node) && !["result", "type", "then", "else"].includes(node[0]);
}

/** The text format's only structure: lists, and what is not one. */
function parse(text) {
  const tokens = text.replace(/;;.*$/gm, "").match(/"(?:[^"\\]|\\.)*"|[()]|[^\s()]+/g);
  const stack = [[]];
  for (const token of tokens) {
    if (token === "(") stack.push([]);
    else if (token === ")") stack.at(-2).push(stack.pop());
    else stack.at(-1).push(token);
  }
  return stack[0][0];
}

function print(node) {
  return Array.isArray(node) ? `(${node.map(print).join(" ")})` : node;
}

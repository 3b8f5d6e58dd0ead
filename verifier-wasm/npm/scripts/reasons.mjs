// What follows from `src/errors/reasons.mjs`: modules, which the build writes, and errors.md, which
// `npm run reasons` writes and a test compares.

import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { REDEMPTION, THROWN, VERIFICATION } from "../src/errors/reasons.mjs";

/** The folder of the package. */
const FOLDER = fileURLToPath(new URL("..", import.meta.url));

const WIDTH = 100;

const GENERATED = "// Generated of src/errors/reasons.mjs.\n\n";

/** The refusals: what a method whose name begins with `try` returns. */
const REFUSALS = [...VERIFICATION, ...REDEMPTION];

const STATUSES = REFUSALS.flatMap(({ reason, statuses = [] }) =>
  statuses.map((status) => ({ ...status, reason })),
).toSorted((one, other) => one.number - other.number);

/** The name of a class: `TokenUsedError` of `ERR_TOKEN_USED`. */
const classOf = (reason) =>
  `${reason
    .slice(3)
    .toLowerCase()
    .replace(/_(.)/g, (_, first) => first.toUpperCase())}Error`;

const indented = (lines) => lines.map((line) => `  ${line},\n`).join("");

function comment(text) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const line = `${lines.pop()} ${word}`;
    if (` *${line}`.length > WIDTH) lines.push(line.slice(0, -word.length - 1), ` ${word}`);
    else lines.push(line);
  }
  return `/**\n${lines.map((line) => ` *${line}\n`).join("")} */\n`;
}

function union(name, of, reasons) {
  const lines = reasons.map(({ reason }) => `  | "${reason}"`);
  return `/** The reasons of {@link ${of}}s. */\nexport type ${name} =\n${lines.join("\n")};\n\n`;
}

function declaredClass(base, { reason, kind, means }) {
  const name = classOf(reason);
  // The base of all is the operator's.
  const own = kind === "visitor" ? '  static override readonly kind = "visitor";\n' : "";
  return `${comment(means)}export class ${name} extends ${base} {
${own}  static readonly reason = "${reason}";
  declare readonly reason: typeof ${name}.reason;
}

`;
}

function classes() {
  return `import { RedemptionError, VerificationError, VerifierError } from "../base.js";

${union("VerificationReason", "VerificationError", VERIFICATION)}\
${union("RedemptionReason", "RedemptionError", REDEMPTION)}\
${VERIFICATION.map((entry) => declaredClass("VerificationError", entry)).join("")}\
${REDEMPTION.map((entry) => declaredClass("RedemptionError", entry)).join("")}\
${THROWN.map((entry) => declaredClass("VerifierError", entry)).join("")}`;
}

function refusals() {
  const names = REFUSALS.map(({ reason }) => classOf(reason));
  return `import {
${indented(names.toSorted())}} from "./classes.js";

/** In a function, so that bundles that never call it are without the classes. */
export const refusalClasses = () => [
${indented(names)}];
`;
}

function statuses() {
  const last = STATUSES.length;
  if (STATUSES.some(({ number }, at) => number !== at + 1)) {
    throw new Error(`the numbers of the statuses are not those from 1 to ${last}, each once`);
  }
  const used = [...new Set(STATUSES.map(({ reason }) => classOf(reason)))].toSorted();
  const named = STATUSES.filter(({ name }) => name !== undefined);
  const declared = ({ name, number, sentence }) =>
    `/** ${sentence} */\nexport const ${name} = ${number};\n`;
  return `import type { ErrorClass } from "../denial.js";
import {
${indented(used)}  type VerificationError,
  type VerificationReason,
} from "../errors.js";

export type Class = ErrorClass<VerificationReason, "visitor", VerificationError>;

${named.map(declared).join("")}
/** What the numbers mean, from 1 on. */
export const meanings: readonly Class[] = [
${indented(STATUSES.map(({ reason }) => classOf(reason)))}];
`;
}

function sentences() {
  return STATUSES.filter(({ sentenceName }) => sentenceName !== undefined)
    .map(({ message, sentenceName }) => `export const ${sentenceName} = "${message}";\n`)
    .join("");
}

/** What the command and `explain` say, which nobody else loads. */
function texts() {
  const plain = (help) => help.replace(/\[(.*?)\]\(.*?\)/g, "$1");
  const ofMessages = STATUSES.filter(({ message }) => message !== undefined).map(
    ({ message, sentence }) => `${JSON.stringify(message)}: ${JSON.stringify(sentence)}`,
  );
  const helps = [...REFUSALS, ...THROWN].map(
    ({ reason, help }) => `${reason}: ${JSON.stringify(plain(help))}`,
  );
  return `/** What the module's numbers mean, from 1 on. */
export const SENTENCES: readonly string[] = [
${indented(STATUSES.map(({ sentence }) => JSON.stringify(sentence)))}];

/** What messages mean that are more than a reason in words. */
export const OF_MESSAGES: Readonly<Record<string, string>> = {
${indented(ofMessages)}};

/** What to do, by reason. */
export const HELP: Readonly<Record<string, string>> = {
${indented(helps)}};
`;
}

function outcomes() {
  const used = [...new Set(REFUSALS.map(({ outcome }) => outcome))].toSorted();
  return `import type { RedemptionReason, VerificationReason } from "../../errors/errors.js";
import { ${used.join(", ")}, type Outcome } from "../outcomes.js";

export const OF_REFUSALS: {
  readonly [Reason in VerificationReason | RedemptionReason]: Outcome;
} = {
${indented(REFUSALS.map(({ reason, outcome }) => `${reason}: ${outcome}`))}};
`;
}

const MODULES = {
  "src/errors/generated/classes.ts": classes,
  "src/errors/generated/refusals.ts": refusals,
  "src/errors/generated/sentences.ts": sentences,
  "src/errors/generated/statuses.ts": statuses,
  "src/errors/generated/texts.ts": texts,
  "src/handler/generated/outcomes.ts": outcomes,
};

/** Writes the modules, which no repository has. */
export function writeReasons() {
  const folders = new Set(Object.keys(MODULES).map((file) => join(FOLDER, dirname(file))));
  for (const folder of folders) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
  }
  for (const [file, text] of Object.entries(MODULES)) {
    writeFileSync(join(FOLDER, file), GENERATED + text());
  }
}

/** A paragraph, wrapped. `first` begins it, and the other lines are indented as far. */
function wrapped(text, first = "") {
  const [start, ...words] = text.split(" ");
  const lines = [first + start];
  for (const word of words) {
    const line = `${lines.at(-1)} ${word}`;
    if (line.length > WIDTH) lines.push(" ".repeat(first.length) + word);
    else lines[lines.length - 1] = line;
  }
  return `${lines.join("\n")}\n`;
}

/** Below a heading of their own, since a section of a page has at most 150 words. */
const listed = (reason, causes) =>
  `\n#### Where does ${reason} come from, and what helps?\n
${causes.map((cause) => wrapped(cause, "- ")).join("")}`;

function sections(title, intro, reasons) {
  const section = ({ reason, kind = "visitor", help, causes }) => {
    const what = wrapped(`\`${classOf(reason)}\`, ${kind}: ${help}`);
    return `### ${reason}\n\n${what}${causes ? listed(reason, causes) : ""}`;
  };
  return [`## ${title}\n`, ...(intro ? [`${intro}\n`] : []), ...reasons.map(section)].join("\n");
}

/** The text of errors.md. */
export function errorsDocument() {
  return [
    "# mailroom-verifier: errors\n",
    wrapped(
      "What each `reason` means and what to do. An error's `help` is the address of its section " +
        "here; `errorOf(refusal)` gives the error of a refusal.",
    ),
    wrapped(
      "`visitor` or `operator` is its `kind`, whose fault it is: tell a visitor " +
        '"this link is not valid" only for `visitor`, else "try again later".',
    ),
    sections(
      "VerificationError",
      "The link or the code is not good. `tryVerify` and `tryRedeem` return these as refusals.",
      VERIFICATION,
    ),
    sections(
      "RedemptionError",
      "A guard does not let the link through. `tryRedeem` returns these as refusals.",
      REDEMPTION,
    ),
    sections("Always thrown", undefined, THROWN),
  ].join("\n");
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  writeFileSync(join(FOLDER, "errors.md"), errorsDocument());
}

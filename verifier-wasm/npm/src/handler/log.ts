import { VerifierError } from "../errors/errors.js";

/** How much of a message is shown. */
const LONGEST = 200;

/**
 * What `onError` is by default. Of errors of this package the message is shown, of those of the
 * application its name, its code, where it was thrown, and its message without what may be a
 * secret: what the visitor sent, and what looks like a token, a key, a code, an address or a value
 * in quotation marks.
 */
export function log(error: unknown, hidden: readonly string[] = []): void {
  console.error(`mailroom-verifier/handler: ${shown(error, hidden)}`);
}

function shown(error: unknown, hidden: readonly string[], depth = 0): string {
  try {
    if (!(error instanceof Error)) return `something of the type ${typeof error} was thrown`;
    const { message, name, cause } = error;
    const isOwn = error instanceof VerifierError;
    const parts = [isOwn ? error.reason : named(name)];
    const { code } = error as { readonly code?: unknown };
    if (typeof code === "string" && /^[A-Z][A-Z\d_]{1,63}$|^\d[\dA-Z]{4}$/.test(code))
      parts.push(` ${code}`);
    const said = isOwn ? message : masked(String(message), hidden, code);
    if (said !== "") parts.push(`: ${said}`);
    const place = isOwn ? undefined : placeOf(error);
    if (place !== undefined) parts.push(` (${place})`);
    if (cause !== undefined && depth < 3)
      parts.push(`, caused by ${shown(cause, hidden, depth + 1)}`);
    // Short messages name what is wrong and no more, since verifiers carry them into pages.
    if (isOwn && message.startsWith("wrong: ")) {
      if (/: (?:undefined|0)$/.test(message)) parts.push(": is MAILROOM_SECRET_KEY set?");
      parts.push(` (${error.help})`);
    }
    return parts.join("");
  } catch {
    // What throws when it is read says nothing.
    return "an error that cannot be read was thrown";
  }
}

function named(name: unknown): string {
  return typeof name === "string" && /^\w{1,64}$/.test(name) ? name : "Error";
}

/** What PostgreSQL says of a table, a schema, a column or a function that is not there. */
const MISSING =
  /^(?:relation|schema|column|function) [\w ".,()[\]=>]+ does not exist(?:: has [\w ]+\?)?$/;

function masked(message: string, hidden: readonly string[], code: unknown): string {
  let text = message.slice(0, 2_000);
  for (const value of hidden) if (value.length > 2) text = text.replaceAll(value, "…");
  // Names in the schema are no secrets, and whoever has to add what is missing needs them.
  if (/^(?:42|3F)/.test(String(code)) && MISSING.test(text) && text.length <= LONGEST) return text;
  return (
    text
      .replace(/(["'`]).*?\1/gs, "$1…$1")
      // Not by one expression: it would read a long word once for each of its characters.
      .replace(/\S+/g, (word) => (word.includes("@") ? "…" : word))
      .replace(/[\w+/=-]*\d[\w+/=-]{3,}|[\w+/=-]{3,}\d[\w+/=-]*|[\w+/=-]{25,}/g, "…")
      .replace(/\s+/g, " ")
      .slice(0, LONGEST)
  );
}

/** The file, line and column of the first place that the stack names. */
function placeOf({ stack }: Error): string | undefined {
  const lines = typeof stack === "string" ? stack.split("\n") : [];
  for (const line of lines) {
    // V8 and others write `at f (file:1:2)`, Safari and Firefox `f@file:1:2`.
    const at = /(?::\d+){1,2}(?=\)?$)/.exec(line);
    if (at === null || !/^\s*at |^[^@\s]*@/.test(line)) continue;
    const file =
      line
        .slice(0, at.index)
        .split(/[\s()@]/)
        .at(-1) ?? "";
    if (file !== "") return `at ${file.replace(/[?#].*$/, "").slice(-120)}${at[0]}`;
  }
  return undefined;
}

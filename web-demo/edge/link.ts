// A link of a mail: shown on GET, used on POST.

import type { Action } from "./actions.ts";
import { isOfType, readBody } from "./body.ts";
import type { Environment } from "./environment.ts";
import { FORMATS } from "./formats.ts";
import { userOf } from "./origin.ts";
import { type Check, donePage, errorPage, type Form, formPage, refusalPage } from "./page.ts";
import { type Outcome, redeem } from "./redeeming.ts";
import { type Refusal, refusalByEdge, refusalOf } from "./refusals.ts";
import { settingsOf } from "./settings.ts";
import { countRefusal, tally } from "./tally.ts";
import type { KeepAlive } from "./tries.ts";
import { judgeLink } from "./verifiers.ts";

/** More than a form with a token and a code can have. */
const MOST = 4 * 1024;

const FORM = "application/x-www-form-urlencoded";

export async function link(
  request: Request,
  env: Environment,
  keepAlive: KeepAlive,
  action: Action,
): Promise<Response> {
  if (request.method === "GET" || request.method === "HEAD") {
    return show(env, action, new URL(request.url).searchParams);
  }
  if (request.method !== "POST") {
    return errorPage(
      405,
      "This is no way to use a link",
      "Open the link from the mail, then press the button.",
      {
        Allow: "GET, HEAD, POST",
      },
    );
  }
  if (!isOfType(request, FORM)) {
    return errorPage(
      415,
      "This is no form of ours",
      `A link is used by the button of its page, as ${FORM}.`,
    );
  }
  const body = await readBody(request, MOST);
  if (body === undefined) {
    countRefusal("too long");
    return errorPage(
      413,
      "That is no link",
      "It is far longer than any link. Copy it from the mail again.",
    );
  }
  const fields = new URLSearchParams(body);
  // Of a link whose token is behind `#`, which `pages/src/address.ts` sends.
  if (fields.has("show")) return show(env, action, fields);
  return use(env, keepAlive, action, fields);
}

/** Opening a link changes nothing: mail scanners open every one. */
function show(env: Environment, action: Action, parameters: URLSearchParams): Response {
  const token = onlyToken(parameters);
  if (token instanceof Response) return token;
  const judged = judgeLink(env, token, action);
  if (!judged.ok) {
    countRefusal(judged.reason);
    return refusalPage(refusalByEdge(judged.reason), judged.reason, [
      {
        by: "edge",
        passed: false,
        text: "The edge has stopped this link; nothing behind it was asked.",
      },
    ]);
  }
  tally.opened += 1;
  return formPage(form(env, action, token, judged), found(action, judged));
}

/** A code as people type and paste it: with blanks and punctuation, or in full width. */
function digitsOf(typed: string | null): string | undefined {
  return typed?.normalize("NFKC").replace(/[\s\p{P}\p{S}\p{M}\p{Cf}]/gu, "");
}

async function use(
  env: Environment,
  keepAlive: KeepAlive,
  action: Action,
  fields: URLSearchParams,
): Promise<Response> {
  const token = onlyToken(fields);
  if (token instanceof Response) return token;
  const outcome = await redeem(env, keepAlive, token, action, digitsOf(fields.get("code")));
  if (outcome.reason === "ok") {
    tally.verified += 1;
    return donePage(action, [
      { by: "edge", passed: true, text: "The edge has let the link through, once." },
      {
        by: userOf(action),
        passed: true,
        text: "The database has used it, in one transaction with its effect.",
      },
    ]);
  }
  if (outcome.by === "edge") countRefusal(outcome.reason);
  const refusal = refusalOf(outcome, action);
  // Here another code, or another moment, can still help.
  const helps =
    refusal.status === 422 || refusal.status === 503 || outcome.reason === "not_eligible";
  return helps
    ? again(env, action, token, refusal, checksOf(outcome, action))
    : refusalPage(refusal, outcome.reason, checksOf(outcome, action));
}

function checksOf({ by: judge, reason, stuck, judged }: Outcome, action: Action): Check[] {
  if (judge === "edge") {
    const text = "The edge has stopped this; nothing behind it was asked.";
    return [{ by: judge, passed: false, text }];
  }
  const by = userOf(action);
  const edge: Check =
    judged === false
      ? {
          by: "edge",
          passed: undefined,
          text: "The edge has passed this on, since it cannot judge it.",
        }
      : stuck
        ? {
            by: "edge",
            passed: undefined,
            text: "The edge has let the link through, and could not take it back.",
          }
        : { by: "edge", passed: true, text: "The edge has checked the link." };
  if (reason === "away")
    return [edge, { by, passed: false, text: "What uses links, or its database, is away." }];
  if (reason === "silent") {
    return [
      edge,
      {
        by,
        passed: undefined,
        text: "What uses links, or its database, did not answer in time.",
      },
    ];
  }
  return [edge, { by, passed: false, text: "The database said no." }];
}

function again(
  env: Environment,
  action: Action,
  token: string,
  refusal: Refusal,
  checks: Check[],
): Response {
  const judged = judgeLink(env, token, action);
  if (!judged.ok) return refusalPage(refusalByEdge(judged.reason), judged.reason, checks);
  return formPage(form(env, action, token, judged), checks, refusal);
}

function form(
  env: Environment,
  action: Action,
  token: string,
  { version, expiresAt }: Judged,
): Form {
  return { action, token, version, expiresAt, publicKeys: settingsOf(env).publicKeys.join(" ") };
}

type Judged = Extract<ReturnType<typeof judgeLink>, { ok: true }>;

function found(action: Action, { version, proven }: Judged): Check[] {
  const { hasHeader, hasCodeTag } = FORMATS[version];
  const format = `v${version}`;
  const checks: Check[] = proven
    ? [{ by: "edge", passed: true, text: `This ${format} link is genuine.` }]
    : [
        {
          by: "edge",
          passed: undefined,
          text: `Whether this ${format} link is genuine shows only with its code.`,
        },
      ];
  checks.push(
    hasHeader
      ? { by: "edge", passed: true, text: "It has not expired." }
      : {
          by: "edge",
          passed: undefined,
          text: `A ${format} link carries no expiry: only the database knows it.`,
        },
  );
  if (action === "recover") {
    const text = hasCodeTag
      ? "The edge will check the code and count the tries."
      : "Only the database can check the code; it counts the tries, as the edge does.";
    checks.push({ by: hasCodeTag ? "edge" : userOf(action), passed: undefined, text });
  }
  checks.push({
    by: userOf(action),
    passed: undefined,
    text: "Whether it was used is asked when you press the button.",
  });
  return checks;
}

/** The one token, or the page that says what is wrong. */
function onlyToken(parameters: URLSearchParams): string | Response {
  const [token, another] = parameters.getAll("token");
  if (token === undefined || token === "") {
    countRefusal("no token");
    return errorPage(
      400,
      "There is no link here",
      "The address has no token. Open the link as it stands in the mail; " +
        "one with a # needs script.",
    );
  }
  if (another !== undefined) {
    countRefusal("two tokens");
    return errorPage(
      400,
      "These are two links",
      "The address has more than one token. Open one link at a time.",
    );
  }
  return token;
}

// What was found of a link as the data that a handler answers: its headers, cookies and words, and
// the page that opens a token behind `#`.

import { newVisitor, visitorOf } from "./browser.js";
import type { Judgement } from "./judgement.js";
import type { ReadHandlerOptions } from "./options_reading.js";
import type { Outcome, ShownLink } from "./outcomes.js";
import { openingDocument } from "./page.js";
import { headersOf, newNonce } from "./policy.js";
import type { Spoken } from "./texts.js";
import { words } from "./words.js";

/** An outcome as what is answered. */
export function judgementOf(
  outcome: Outcome,
  action: string | undefined,
  request: Request,
  { language, texts }: Spoken,
  options: ReadHandlerOptions,
): Judgement<string> {
  const { page, status, problem, reason, response } = outcome;
  const {
    token,
    codeDigits = 0,
    browserCodeDigits = 0,
    expiresAt,
    browser,
  }: Partial<ShownLink> = outcome.link ?? {};
  const nonce = newNonce();
  const headers = headersOf(nonce, options, outcome.headers);
  const isVisitor =
    !outcome.renewsVisitor && visitorOf(request.headers.get("Cookie")) !== undefined;
  if (browser === "other" && !isVisitor) headers.append("Set-Cookie", newVisitor(request));
  for (const cookie of outcome.cookies ?? []) headers.append("Set-Cookie", cookie);
  const judgement: Judgement<string> = {
    page,
    status,
    headers,
    action: action as Judgement<string>["action"],
    token,
    codeDigits,
    browserCodeDigits,
    browser,
    expiresAt,
    problem,
    reason,
    language,
    ...words(texts, outcome, action, options.password, options.site),
    nonce,
    response,
  };
  // Of what is inherited from all objects nothing is a key.
  if (!(Object.hasOwn(outcome, "publicKeys") && outcome.publicKeys)) return judgement;
  const document = openingDocument(judgement, texts, outcome.publicKeys, options.site);
  return {
    ...judgement,
    response: new Response(document, { status, headers: asPage(headers, language) }),
  };
}

/** The headers of a page. */
export function asPage(headers: Headers, language: string): Headers {
  headers.set("Content-Type", "text/html; charset=utf-8");
  headers.set("Content-Language", language);
  return headers;
}

import type { VerifiedLink } from "../link.js";
import { readMethod } from "../options.js";
import { InvalidArgumentError } from "../store.js";
import { newVisitor, nonceOf, visitorOf } from "./browser.js";
import { digitsFor } from "./elsewhere.js";
import { type Judgement, type Outcome, outcomeOf, type ShownLink } from "./judgement.js";
import { type HandlerOptions, readHandlerOptions } from "./options.js";
import { documentOf, openingDocument } from "./page.js";
import { headersOf, newNonce, withHeaders } from "./policy.js";
import { redeemLink } from "./redeeming.js";
import { type Asked, cleared, isWithoutScript, moved, readRequest } from "./request.js";
import { languageFor, type Texts } from "./texts.js";

/** What {@link createLinkHandler} returns. It needs no `this`. */
export interface LinkHandler<Further extends string = never> {
  /**
   * Answers a request, whatever it asks for. `context` is what the runtime gives beside it: if it has a method `waitUntil`,
   * what a press has begun goes on when the visitor leaves.
   */
  (request: Request, context?: object): Promise<Response>;
  /**
   * The same as data, for frameworks that render pages themselves: a POST uses the link as well. A token in the address
   * is answered by `moved`, a redirect after which a cookie has it, so pages of a framework never have one in their address.
   */
  judge(request: Request, context?: object): Promise<Judgement<Further>>;
}

/** @internal What the entry calls `createLinkHandler`. */
export function makeHandler<Further extends string>(given: HandlerOptions<Further>): LinkHandler<Further> {
  const options = readHandlerOptions(given);

  /** @param asData whether the token leaves the address by a redirect in any case */
  async function judge(
    request: Request,
    context: unknown,
    asData: boolean,
  ): Promise<[Judgement<string>, URL | undefined]> {
    demandRequest(request);
    let asked: Asked | undefined;
    let action: string | undefined;
    let outcome: Outcome;
    try {
      action = options.action ?? actionOf(request);
      asked = await readRequest(request, options.origins);
      outcome = await outcomeFor(asked, action, request, context, asData);
    } catch (error) {
      report(error);
      outcome = { page: "failure", status: 500 };
    }
    const leaving = asked?.kind === "show" && asked.from === "address" ? asked.url : undefined;
    return [judgementOf(outcome, action, request), outcome.page === "form" ? leaving : undefined];
  }

  function outcomeFor(
    asked: Asked,
    action: string,
    request: Request,
    context: unknown,
    asData: boolean,
  ): Outcome | Promise<Outcome> {
    if (asked.kind === "refused") return { page: "error", ...asked };
    if (asked.kind === "empty") {
      if (!options.publicKeys) return { page: "error", status: 400 };
      return { page: "response", status: 200, publicKeys: options.publicKeys() };
    }
    if (asked.kind === "blocked") return { page: "blocked", status: 400 };
    if (asked.kind === "use") return used(asked, action, request, context);
    const { token, from, url } = asked;
    const shown = show(token, action, nonceIn(request));
    if (from === "cookie") return { ...shown, headers: { ...shown.headers, "Set-Cookie": cleared(url) } };
    // Nothing is used or counted by the redirect.
    if (from === "body" || shown.page !== "form" || !(asData || isWithoutScript(url))) return shown;
    return { page: "moved", status: 303, headers: moved(url, token, newNonce()) };
  }

  async function used(
    { token, code, fields }: Extract<Asked, { kind: "use" }>,
    action: string,
    request: Request,
    context: unknown,
  ): Promise<Outcome> {
    const { guard, redeem } = options;
    const waitUntil = readMethod(context, "waitUntil");
    const nonce = nonceIn(request);
    const work = redeemLink({ token, action, code, nonce, fields, request }, guard, redeem, report);
    try {
      // A visitor who leaves ends the request, and in some runtimes all that it has begun.
      waitUntil?.(work.catch(() => undefined));
    } catch (error) {
      report(error);
    }
    const outcome = await work;
    if (outcome.page !== "form") return outcome;
    const shown = show(token, action, nonce);
    return shown.link ? { ...outcome, link: shown.link } : shown;
  }

  /** Judges a link without using it. */
  function show(token: string, action: string, nonce: string | undefined): Outcome {
    const { verifier, v1RememberFor } = options.guard;
    const found = verifier.tryVerifyLink(token, { action, nonce });
    if (found.ok) return { page: "form", status: 200, link: shownLink(token, found.link) };
    if (found.reason !== "ERR_LINK_UNCHECKABLE" || action === "recover") return outcomeOf(found.reason);
    // A v1 activation, of which the database alone knows the expiry.
    const verified = verifier.tryVerify(token, { action });
    if (!verified.ok) return outcomeOf(verified.reason);
    if (v1RememberFor === undefined) {
      report(new InvalidArgumentError("a v1 link came: give createLinkHandler the option v1RememberFor"));
      return outcomeOf("ERR_GUARD_UNSUPPORTED");
    }
    return {
      page: "form",
      status: 200,
      link: { token, codeDigits: 0, expiresAt: undefined, browser: "unbound" },
    };
  }

  function judgementOf(outcome: Outcome, action: string | undefined, request: Request): Judgement<string> {
    const { page, status, problem, reason, response } = outcome;
    const { token, codeDigits = 0, expiresAt, browser }: Partial<ShownLink> = outcome.link ?? {};
    const language = languageFor(request.headers.get("Accept-Language"), options.languages);
    const texts = options.languages.get(language) as Texts;
    const nonce = newNonce();
    const filled = (text: string) => text.replaceAll("{digits}", String(codeDigits));
    const { title, text, button } = words(texts, outcome, action);
    const headers = headersOf(nonce, options, outcome.headers);
    const isVisitor = !outcome.renewsVisitor && visitorOf(request.headers.get("Cookie")) !== undefined;
    if (browser === "other" && !isVisitor) {
      headers.append("Set-Cookie", newVisitor(new URL(request.url)));
    }
    const judgement: Judgement<string> = {
      page,
      status,
      headers,
      action: action as Judgement<string>["action"],
      token,
      codeDigits,
      browser,
      expiresAt,
      problem,
      reason,
      language,
      title: filled(title),
      text: filled(text),
      button,
      codeLabel: filled(texts.code),
      nonce,
      response,
    };
    // Of what is inherited from all objects nothing is a key.
    if (!(Object.hasOwn(outcome, "publicKeys") && outcome.publicKeys)) return judgement;
    const document = openingDocument(judgement, texts, outcome.publicKeys, new URL(request.url));
    return { ...judgement, response: new Response(document, { status, headers: asPage(headers, language) }) };
  }

  async function answer(request: Request, context: unknown): Promise<Response> {
    const [judgement, leaving] = await judge(request, context, false);
    const { page, status, headers, response } = judgement;
    if (response) return withHeaders(response, headers);
    if (page === "moved" || request.method === "HEAD") return new Response(null, { status, headers });
    asPage(headers, judgement.language);
    const own = options.pages.get(page);
    let document: string;
    try {
      document = await documentOf(judgement, own, leaving, new URL(request.url));
    } catch (error) {
      report(error);
      document = await documentOf(judgement, undefined, leaving, new URL(request.url));
    }
    return new Response(document, { status, headers });
  }

  function report(error: unknown): void {
    try {
      options.onError(error);
    } catch {
      // What reports an error must not be one.
    }
  }

  return Object.freeze(
    Object.assign((request: Request, context?: unknown) => answer(request, context), {
      judge: async (request: Request, context?: unknown) => (await judge(request, context, true))[0],
    }),
  ) as LinkHandler<Further>;
}

function demandRequest(request: unknown): asserts request is Request {
  try {
    const { url, headers } = request as Request;
    if (typeof url === "string" && typeof headers.get === "function") return;
  } catch {
    // What cannot be read is none.
  }
  throw new InvalidArgumentError(
    "the handler takes a Request of the Fetch API; wrap it in toNodeListener for requests of Node",
  );
}

function asPage(headers: Headers, language: string): Headers {
  headers.set("Content-Type", "text/html; charset=utf-8");
  headers.set("Content-Language", language);
  return headers;
}

function nonceIn(request: Request): string | undefined {
  return nonceOf(request.headers.get("Cookie"));
}

function shownLink(token: string, link: VerifiedLink<string>): ShownLink {
  const { expiresAt, browser } = link;
  return { token, codeDigits: digitsFor(link), expiresAt, browser };
}

/** The action that the address names. */
function actionOf(request: Request): string {
  const [, action] = /\/(activate|recover)\/?$/.exec(new URL(request.url).pathname) ?? [];
  if (action !== undefined) return action;
  throw new InvalidArgumentError(
    "the address ends in neither /activate nor /recover: give the option action",
  );
}

/** What a page says. */
function words(texts: Texts, { page, problem, link, elsewhere }: Outcome, action = "other") {
  const of = texts.actions[action] ?? texts.actions.other;
  const { button } = of;
  if (elsewhere) return { title: texts.locked.title, text: texts.lockedElsewhere, button };
  if (problem !== undefined) return { ...texts[problem], button };
  if (link?.browser === "other") return { ...of, text: texts.elsewhere };
  if (page === "form" || page === "moved" || page === "response") return of;
  if (page === "done") return { title: of.done, text: texts.close, button };
  return { ...texts[page], button };
}

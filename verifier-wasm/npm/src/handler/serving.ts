// Answers requests for links: judges each, uses it when its button is pressed, and shows its page.

import { unawaited } from "../arguments/callbacks.js";
import { readMethod } from "../arguments/options.js";
import { GuardUnsupportedError, InvalidArgumentError } from "../errors/errors.js";
import { bytesIn } from "../token/binary.js";
import { againWith, isAgain, type Press } from "./asking.js";
import { nonceIn } from "./browser.js";
import { browserDigitsFor } from "./elsewhere.js";
import { type Judgement, outcomeOf } from "./judgement.js";
import type { Memory } from "./keeping.js";
import type { LinkHandler } from "./link_handler.js";
import { log } from "./log.js";
import { pathOf } from "./mending.js";
import { isOnward, onwardAddress, onwardHeaders } from "./onward.js";
import type { HandlerOptions } from "./options.js";
import { readHandlerOptions } from "./options_reading.js";
import { originDiffers } from "./origin.js";
import { type Outcome, RENEWED, UNASKED, WRONG_CODE, WRONG_PASSWORD } from "./outcomes.js";
import { documentOf, onwardDocument, type Setting } from "./page.js";
import { lacksPassword } from "./password.js";
import { withHeaders } from "./policy.js";
import { asPage, judgementOf } from "./presenting.js";
import { type Begun, redeemLink } from "./redeeming.js";
import {
  type Asked,
  cleared,
  isWithoutScript,
  moved,
  readPress,
  readRequest,
  SCRIPT,
} from "./request.js";
import { type LateLanguages, languageFor, type Spoken } from "./texts.js";
import { redeemV1, UNCOUNTED, V1_DIGITS } from "./v1.js";
import { cureOf, hasExpired, type VerifierRefusal } from "./verifiers.js";
import { words } from "./words.js";

/** What is known of a request once it is judged. */
interface Judged {
  readonly judgement: Judgement<string>;
  readonly memory: Memory;
  /** The token that has to leave the address. */
  readonly leaving: string | undefined;
  readonly spoken: Spoken;
}

/** Told of a link whose signature was verified. */
const UNKNOWN_LINK =
  "redeem answered unknown to a genuine link: its token was deleted, as with its account, " +
  "or redeem asks another database than the collector";

/** The pages from which a new link may be asked for. */
const RENEWABLE: readonly Outcome["page"][] = ["expired", "used", "locked"];

/** The pages with which a link has come to its end. */
const ENDS: readonly Outcome["page"][] = ["done", "invalid", "expired", "used", "locked"];

/** @internal What the entry calls `createLinkHandler`. */
export function makeHandler<Further extends string>(
  given: HandlerOptions<Further>,
  late?: LateLanguages,
): LinkHandler<Further> {
  const options = readHandlerOptions(given, late);
  const { verifier } = options.guard;
  const told = new Set<string>();
  const begun: Begun = new Set();

  /** @param asData whether the token leaves the address by a redirect in any case */
  async function judge(request: Request, context: unknown, asData: boolean): Promise<Judged> {
    demandRequest(request);
    let asked: Asked | undefined;
    let action: string | undefined;
    let outcome: Outcome;
    let token: string | undefined;
    try {
      action = options.action ?? actionOf(request);
      if (action === undefined) outcome = { page: "error", status: 404 };
      else {
        asked = await readRequest(request, options.origins);
        if ("tokens" in asked) token = meant(asked.tokens, action, nonceIn(request));
        outcome = await outcomeFor(asked, token, action, request, context, asData);
      }
    } catch (error) {
      report(error);
      outcome = { page: "failure", status: 500 };
    }
    if (token !== undefined && action !== undefined && RENEWABLE.includes(outcome.page)) {
      const isGenuine = options.renewLink && isSigned(token, action);
      if (isGenuine) outcome = { ...outcome, renews: token };
    }
    const memory = memoryOf(outcome, asked, token);
    if (token !== undefined && memory.does === "forget") {
      outcome = { ...outcome, cookies: cleared(request, token) };
    }
    const spoken = await spokenTo(request);
    const isInAddress =
      asked?.kind === "show" && asked.from === "address" && outcome.page === "form";
    return {
      judgement: judgementOf(outcome, action, request, spoken, options),
      memory,
      spoken,
      leaving: isInAddress ? token : undefined,
    };
  }

  function outcomeFor(
    asked: Asked,
    token: string | undefined,
    action: string,
    request: Request,
    context: unknown,
    asData: boolean,
  ): Outcome | Promise<Outcome> {
    if (asked.kind === "refused") return { page: "error", ...asked };
    if (asked.kind === "foreign") return foreign(asked.url, action, request);
    if (asked.kind === "empty") {
      if (!options.publicKeys) return { page: "error", status: 400 };
      return { page: "response", status: 200, publicKeys: options.publicKeys() };
    }
    if (asked.kind === "blocked") return { page: "blocked", status: 400 };
    if (token === undefined) return { page: "error", status: 400 };
    if (asked.kind === "renew") return renewed(token, action, request);
    if (asked.kind === "use")
      return used({ ...asked, token, action, nonce: nonceIn(request), request }, context);
    const { from, url, isWrong } = asked;
    const shown = show(token, action, nonceIn(request));
    if (!shown.link) return shown;
    // Nothing is used or counted by the redirect.
    if (from === "address" && (asData || isWithoutScript(url))) return moved(request, url, token);
    return isWrong ? { ...shown, ...WRONG_CODE } : shown;
  }

  /**
   * A form that is not of this site. If it was, the operator has to know: that of a genuine link,
   * not sent by another site.
   */
  async function foreign(url: URL, action: string, request: Request): Promise<Outcome> {
    const refused: Outcome = { page: "error", status: 403 };
    if (told.has("origin") || request.headers.get("Sec-Fetch-Site") === "cross-site")
      return refused;
    const asked = await readPress(request, url);
    if (asked.kind !== "use" && asked.kind !== "show") return refused;
    const token = meant(asked.tokens, action, undefined);
    const isGenuine =
      verifier.tryVerifyLink(token, { action }).ok ||
      (action !== "recover" && verifier.tryVerify(token, { action }).ok);
    if (isGenuine) tellOnce("origin", new InvalidArgumentError(originDiffers(url)));
    return refused;
  }

  async function used(press: Press, context: unknown): Promise<Outcome> {
    const { token, action, nonce, fields, request } = press;
    const { password } = options;
    const hasNoScript = fields.get(SCRIPT) === "no";
    // It is no field of the application's.
    if (hasNoScript) fields.delete(SCRIPT);
    // Before what is to be hidden is known: the password is left in another form.
    const lacks = password?.actions.includes(action) === true && lacksPassword(fields, password);
    const hidden = [...fields.values(), token, nonce ?? ""];
    const waitUntil = readMethod(context, "waitUntil");
    const work = redeemed(press, lacks, (error) => report(error, hidden));
    // A visitor who leaves ends the request, and in some runtimes all that it has begun.
    unawaited(() => waitUntil?.(work.catch(() => undefined)), report);
    const outcome = await work;
    if (outcome.page !== "form") return outcome;
    const shown = show(token, action, nonce);
    if (!shown.link) return shown;
    const form = { ...outcome, link: shown.link };
    if (outcome.problem !== "wrongCode") return form;
    if (shown.link.codeDigits || shown.link.browserCodeDigits) {
      // A reload of an answer would send the code again, and count it.
      return hasNoScript
        ? { ...moved(request, new URL(request.url), token, "-wrong"), reason: outcome.reason }
        : form;
    }
    report(
      new InvalidArgumentError(
        `redeem answered wrong_code to a link of ${action}, whose form has no field for a code: ` +
          "give mailroom.redeem bindingIsProven and browserCode as they are",
      ),
    );
    return { page: "failure", status: 500, reason: "wrong_code" };
  }

  async function redeemed(
    press: Press,
    lacksPassword: boolean,
    report: (error: unknown) => void,
  ): Promise<Outcome> {
    const { token, action, nonce, fields, request } = press;
    const { guard, redeem } = options;
    const found = verifier.tryVerifyLink(token, { action, nonce });
    const isV1 = !found.ok && found.reason === "ERR_LINK_UNCHECKABLE";
    if (!found.ok && !isV1) return refused(found, token);
    if (isV1) {
      const first = show(token, action, nonce);
      if (first.page !== "form") return first;
    }
    if (lacksPassword) return WRONG_PASSWORD;
    if (options.check) {
      let said: unknown;
      try {
        said = await options.check({ action: action as "activate", fields, request });
        if (said !== undefined && !isAgain(said)) {
          throw new InvalidArgumentError(
            'the option check must return { again: "a message" } or undefined',
          );
        }
      } catch (error) {
        report(error);
        return outcomeOf("away");
      }
      if (isAgain(said)) return againWith(said);
    }
    if (isV1 && action === "recover") return redeemV1(press, redeem, report);
    const link = found.ok ? found.link : undefined;
    const outcome = await redeemLink(press, link, guard, begun, redeem, report);
    if (outcome.reason === "unknown") tellOnce("unknown", new InvalidArgumentError(UNKNOWN_LINK));
    return outcome;
  }

  /**
   * Whether the token is of v2 or v3, of this action and of one of the keys, also where it has
   * expired: what is said of the time comes after that.
   */
  function isSigned(token: string, action: string): boolean {
    const found = verifier.tryVerifyLink(token, { action });
    return found.ok || found.reason === "ERR_TOKEN_EXPIRED";
  }

  /** Asks for a new link, and says the same whatever comes of it. */
  async function renewed(token: string, action: string, request: Request): Promise<Outcome> {
    const { renewLink } = options;
    if (!renewLink) return { page: "error", status: 400 };
    if (!isSigned(token, action)) return show(token, action, nonceIn(request));
    try {
      await renewLink({ action: action as "activate", secret: secretOf(token) });
      return RENEWED;
    } catch (error) {
      report(error, [token]);
      return { ...UNASKED, renews: token };
    }
  }

  /** The token that the sent texts mean: the first that is genuine, else the likeliest. */
  function meant(tokens: readonly string[], action: string, nonce: string | undefined): string {
    const [first = ""] = tokens;
    if (tokens.length === 1) return first;
    const isGenuine = (token: string) => {
      const found = verifier.tryVerifyLink(token, { action, nonce });
      if (found.ok || found.reason === "ERR_TOKEN_EXPIRED" || found.reason === "ERR_TOKEN_ACTION")
        return true;
      return (
        found.reason === "ERR_LINK_UNCHECKABLE" &&
        (action === "recover" || verifier.tryVerify(token, { action }).ok)
      );
    };
    return tokens.find(isGenuine) ?? first;
  }

  /** Judges a link without using it. */
  function show(token: string, action: string, nonce: string | undefined): Outcome {
    const found = verifier.tryVerifyLink(token, { action, nonce });
    if (found.ok) {
      const { codeDigits, expiresAt, browser } = found.link;
      const browserCodeDigits = browserDigitsFor(found.link);
      return {
        page: "form",
        status: 200,
        link: { token, codeDigits, browserCodeDigits, expiresAt, browser },
      };
    }
    if (found.reason !== "ERR_LINK_UNCHECKABLE") return refused(found, token);
    // Of v1 the database alone knows the expiry, and whether a code is right.
    if (action === "recover") {
      if (!options.countsAttempts) return unsupported("uncounted", UNCOUNTED);
    } else {
      const verified = verifier.tryVerify(token, { action });
      if (!verified.ok) return refused(verified, token);
    }
    const codeDigits = action === "recover" ? V1_DIGITS : 0;
    return {
      page: "form",
      status: 200,
      link: { token, codeDigits, browserCodeDigits: 0, expiresAt: undefined, browser: "unbound" },
    };
  }

  /** What is not the visitor's to mend is not told to be the link's fault. */
  function refused(found: VerifierRefusal, token: string): Outcome {
    const cure = cureOf(found);
    if (cure === undefined) return outcomeOf(found.reason);
    // The key of a link that has expired may be gone by right.
    return hasExpired(token) ? outcomeOf("ERR_TOKEN_EXPIRED") : unsupported(cure, cure);
  }

  function unsupported(name: string, cure: string): Outcome {
    tellOnce(name, new GuardUnsupportedError(cure));
    return outcomeOf("ERR_GUARD_UNSUPPORTED");
  }

  /** The languages that a page may be in, those of the option `language` first. */
  function preferred(request: Request): string | null {
    const accepted = request.headers.get("Accept-Language");
    let said: unknown;
    try {
      said = options.language?.(request);
      if (said === undefined) return accepted;
      if (typeof said === "string" && /^[\w-]{1,35}$/.test(said))
        return `${said},${accepted ?? ""}`;
      throw new InvalidArgumentError(
        "the option language must return a tag such as de, or undefined",
      );
    } catch (error) {
      report(error);
      return accepted;
    }
  }

  /** The texts in the visitor's language. */
  async function spokenTo(request: Request): Promise<Spoken> {
    const { languages } = options;
    const language = languageFor(preferred(request), languages);
    const spoken = await languages.textsOf(language);
    if (spoken.failure) tellOnce("language", spoken.failure.error);
    return spoken;
  }

  async function answer(request: Request, context: unknown): Promise<Response> {
    const { judgement, memory, leaving, spoken } = await judge(request, context, false);
    const { page, status, headers, response } = judgement;
    if (request.method === "HEAD") {
      return new Response(null, {
        status,
        headers: page === "moved" ? headers : asPage(headers, judgement.language),
      });
    }
    if (response && !isOnward(request, response)) return withHeaders(response, headers);
    if (page === "moved") return new Response(null, { status, headers });
    asPage(headers, judgement.language);
    const setting = {
      url: new URL(request.url),
      memory,
      leaving,
      hears: options.publicKeys !== undefined,
      site: options.site,
    };
    if (response) return onward(request, response, judgement, spoken, setting);
    return new Response(await rendered(judgement, setting), { status, headers });
  }

  /** The page in place of a redirect that `redeem` has answered. */
  async function onward(
    request: Request,
    response: Response,
    judgement: Judgement<string>,
    { texts }: Spoken,
    setting: Setting,
  ): Promise<Response> {
    const address = onwardAddress(response.headers.get("Location") as string, request.url);
    unawaited(() => response.body?.cancel(), report);
    const headers = onwardHeaders(response, judgement.headers);
    if (address !== undefined)
      return new Response(onwardDocument(judgement, texts.onward, address, setting), { headers });
    report(
      new InvalidArgumentError(
        "redeem answered a redirect to an address that is neither of http or https nor relative; " +
          "the page says that the link was used",
      ),
    );
    const done = { page: "done", status: 200 } as const;
    const said = words(texts, done, judgement.action, undefined, options.site);
    return new Response(await rendered({ ...judgement, ...done, ...said }, setting), { headers });
  }

  async function rendered(judgement: Judgement<string>, setting: Setting): Promise<string> {
    try {
      const { pages } = options;
      const { page, action } = judgement;
      const own = `${action} ${page}`;
      return await documentOf(judgement, pages.get(pages.has(own) ? own : page), setting);
    } catch (error) {
      report(error);
      return documentOf(judgement, undefined, setting);
    }
  }

  /** What anybody can cause is said once. */
  function tellOnce(name: string, error: unknown): void {
    if (told.has(name)) return;
    told.add(name);
    report(error);
  }

  function report(error: unknown, hidden: readonly string[] = []): void {
    // What reports an error must not be one.
    unawaited(() => (options.onError ? options.onError(error) : log(error, hidden)));
  }

  return Object.freeze(
    Object.assign((request: Request, context?: unknown) => answer(request, context), {
      judge: async (request: Request, context?: unknown) =>
        (await judge(request, context, true)).judgement,
    }),
  ) as LinkHandler<Further>;
}

/** What a page does about its link. */
function memoryOf(outcome: Outcome, asked: Asked | undefined, token: string | undefined): Memory {
  const { page, link } = outcome;
  const shown = link?.token ?? (page === "failure" ? token : undefined);
  if (shown !== undefined) return { does: "keep", token: shown };
  if (asked?.kind === "empty") return { does: "recall" };
  // In another browser a link may be locked that works in the one that asked for it: here it has
  // come to its end as well.
  const isUsed = page === "response" && outcome.status < 400 && outcome.publicKeys === undefined;
  return { does: ENDS.includes(page) || isUsed ? "forget" : "nothing" };
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

/**
 * The action that the address names, with whatever a mail program has put around it; nothing for
 * one that is nobody's. Some frameworks take a path in any case of its letters.
 */
function actionOf(request: Request): string | undefined {
  const path = pathOf(new URL(request.url));
  return /\/(activate|recover)[^\p{L}\p{N}]*$/iu.exec(path)?.[1]?.toLowerCase();
}

/** The secret of a token of v2 or v3 that is known to be signed (token-format.md). */
function secretOf(token: string): Uint8Array {
  const bytes = bytesIn(token);
  // Bit 7 of the action says that there is a binding before it.
  const at = (bytes[1] as number) >= 0x80 ? 30 : 14;
  return bytes.slice(at, at + 32);
}

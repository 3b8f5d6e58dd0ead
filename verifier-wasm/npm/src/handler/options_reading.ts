// Reads the options of a link handler, each of them once, and says what is wrong with one.

import { atOnce } from "../arguments/callbacks.js";
import { described } from "../arguments/described.js";
import { readMethod, readOptions, unreadable } from "../arguments/options.js";
import { InvalidArgumentError } from "../errors/errors.js";
import { type GuardOptions, readGuardOptions, readVerifier } from "../guard/options.js";
import type { PageName } from "./judgement.js";
import { readPublicKeys } from "./opening.js";
import type { Directive, HandlerOptions, Page } from "./options.js";
import { readOrigins } from "./origin.js";
import { type ReadPassword, readPassword } from "./password.js";
import { type ReadSite, readSite } from "./site.js";
import { type Languages, type LateLanguages, languagesWith, type OwnTexts } from "./texts.js";
import { combined } from "./verifiers.js";

/**
 * For how many seconds the use of a v1 activation is remembered: afterwards the database alone
 * refuses it.
 */
const DAY = 86_400;

const DIRECTIVES: readonly string[] = [
  "connect-src",
  "font-src",
  "form-action",
  "img-src",
  "media-src",
  "script-src",
  "style-src",
] satisfies Directive[];

const PAGES: readonly string[] = [
  "form",
  "done",
  "invalid",
  "expired",
  "used",
  "locked",
  "ineligible",
  "renewed",
  "error",
  "failure",
  "blocked",
] satisfies PageName[];

/** @internal The options, read once. */
export interface ReadHandlerOptions {
  readonly guard: GuardOptions<string> & { readonly storeTimeout: number };
  readonly redeem: HandlerOptions<string>["redeem"];
  readonly check: HandlerOptions<string>["check"];
  readonly password: ReadPassword | undefined;
  readonly countsAttempts: boolean;
  readonly action: string | undefined;
  /** Without it there are no tokens behind `#`. */
  readonly publicKeys: (() => readonly string[]) | undefined;
  readonly renewLink: HandlerOptions<string>["renewLink"];
  readonly site: ReadSite | undefined;
  /** By name, and by action and name with a space in between. */
  readonly pages: ReadonlyMap<string, Page<string> | undefined>;
  readonly language: HandlerOptions<string>["language"];
  readonly languages: Languages;
  readonly policy: ReadonlyMap<string, string>;
  readonly origins: readonly string[];
  /** Without it the log gets the errors. */
  readonly onError: ((error: unknown) => void) | undefined;
}

/** @internal */
export function readHandlerOptions(given: unknown, late?: LateLanguages): ReadHandlerOptions {
  const [
    verifiers,
    store,
    redeem,
    check,
    password,
    countsAttempts,
    action,
    publicKeys,
    renewLink,
    site,
    pages,
    language,
    texts,
    policy,
    origins,
    onError,
    ...ofGuard
  ] = readOptions(given, [
    ...([
      "verifier",
      "store",
      "redeem",
      "check",
      "password",
      "countsAttempts",
      "action",
      "publicKeys",
      "renewLink",
      "site",
      "pages",
      "language",
      "texts",
      "policy",
      "origins",
      "onError",
    ] as const),
    ...(["maxCodeAttempts", "checkCode", "storeTimeout", "v1RememberFor"] as const),
  ]);
  const [maxCodeAttempts, checkCode, storeTimeout = 5, v1RememberFor = DAY] = ofGuard;
  const verifier = readVerifiers(verifiers);
  const guard = { verifier, store, maxCodeAttempts, checkCode, storeTimeout, v1RememberFor };
  readGuardOptions(guard);
  if (typeof redeem !== "function") {
    throw new InvalidArgumentError(
      `the option redeem must be a function, not ${described(redeem)}`,
    );
  }
  if (check !== undefined && typeof check !== "function") {
    throw new InvalidArgumentError(`the option check must be a function, not ${described(check)}`);
  }
  if (renewLink !== undefined && typeof renewLink !== "function") {
    throw new InvalidArgumentError(
      `the option renewLink must be a function, not ${described(renewLink)}`,
    );
  }
  if (language !== undefined && typeof language !== "function") {
    throw new InvalidArgumentError(
      `the option language must be a function, not ${described(language)}`,
    );
  }
  if (countsAttempts !== undefined && typeof countsAttempts !== "boolean") {
    throw new InvalidArgumentError("the option countsAttempts must be true or false");
  }
  if (action !== undefined && (typeof action !== "string" || action === "")) {
    throw new InvalidArgumentError("the option action must name an action");
  }
  if (onError !== undefined && typeof onError !== "function") {
    throw new InvalidArgumentError(
      `the option onError must be a function, not ${described(onError)}`,
    );
  }
  return {
    guard: { ...guard, store: boundStore(store) } as ReadHandlerOptions["guard"],
    redeem: redeem as ReadHandlerOptions["redeem"],
    check: check as ReadHandlerOptions["check"],
    password: readPassword(password),
    countsAttempts: countsAttempts === true || saysThatItCounts(redeem),
    action,
    publicKeys: readKeys(publicKeys),
    renewLink: renewLink as ReadHandlerOptions["renewLink"],
    site: readSite(site),
    pages: readPages(pages),
    language: language as ReadHandlerOptions["language"],
    languages: languagesWith(readTexts(texts), late),
    policy: readPolicy(policy),
    origins: readOrigins(origins),
    onError: onError as ReadHandlerOptions["onError"],
  };
}

/** One verifier, or a list of them as one. */
function readVerifiers(given: unknown): unknown {
  let verifiers: unknown[] | undefined;
  try {
    if (Array.isArray(given)) verifiers = [...given];
  } catch (cause) {
    throw unreadable(cause);
  }
  if (verifiers === undefined) return given;
  if (verifiers.length === 0)
    throw new InvalidArgumentError("the option verifier must be a verifier, or a list");
  return combined(verifiers.map(readVerifier));
}

/** Whether the function has the property, as one that an adapter makes. */
function saysThatItCounts(redeem: object): boolean {
  try {
    return (
      Object.hasOwn(redeem, "countsAttempts") &&
      (redeem as { countsAttempts?: unknown }).countsAttempts === true
    );
  } catch (cause) {
    throw unreadable(cause);
  }
}

function readKeys(given: unknown): ReadHandlerOptions["publicKeys"] {
  if (given === undefined) return undefined;
  if (typeof given === "function") return () => readPublicKeys(atOnce(given));
  const keys = readPublicKeys(given);
  return () => keys;
}

/** The methods of a store, each read once. */
function boundStore(store: unknown): object {
  const methods = ["consume", "release", "attempt", "withdraw"].map((name) => [
    name,
    readMethod(store, name),
  ]);
  return Object.fromEntries(methods.filter(([, method]) => method !== undefined));
}

function readRecord(given: unknown, option: string): [string, object | string][] {
  if (given === undefined) return [];
  return entriesOf(given, `the option ${option}`).filter(([, value]) => value !== undefined) as [
    string,
    object | string,
  ][];
}

function entriesOf(given: unknown, what: string): [string, unknown][] {
  try {
    if (typeof given === "object" && given !== null && !Array.isArray(given))
      return Object.entries(given);
  } catch (cause) {
    throw unreadable(cause);
  }
  throw new InvalidArgumentError(`${what} must be an object, not ${described(given)}`);
}

/** By language, a tag in lower case. */
function readTexts(given: unknown): Record<string, OwnTexts> {
  const languages = readRecord(given, "texts");
  for (const [language, texts] of languages) {
    if (!/^[a-z]{2,8}(-[a-z0-9]{1,8})*$/.test(language) || typeof texts !== "object") {
      throw new InvalidArgumentError(
        'the option texts must be an object such as { de: { close: "Fertig." } }',
      );
    }
  }
  return Object.fromEntries(languages) as Record<string, OwnTexts>;
}

function readPages(given: unknown): ReadonlyMap<string, Page<string> | undefined> {
  const pages = new Map<string, Page<string> | undefined>();
  for (const [name, page] of readRecord(given, "pages")) {
    // An action may have the name of a page: a page is no object.
    if (typeof page !== "object") pages.set(name, readPage(name, page));
    else
      for (const [own, ofAction] of entriesOf(page, `pages.${name}`))
        pages.set(`${name} ${own}`, ofAction === undefined ? undefined : readPage(own, ofAction));
  }
  return pages;
}

function readPage(name: string, page: unknown): Page<string> {
  if (!PAGES.includes(name))
    throw new InvalidArgumentError(`the option pages takes only the names ${PAGES.join(", ")}`);
  if (typeof page !== "string" && typeof page !== "function") {
    throw new InvalidArgumentError(
      `pages.${name} must be a string or a function, not ${described(page)}`,
    );
  }
  if (name === "form" && typeof page === "string" && !page.includes("{{form}}")) {
    throw new InvalidArgumentError("pages.form has {{form}} where the form is to be");
  }
  return page as Page<string>;
}

function readPolicy(given: unknown): ReadonlyMap<string, string> {
  const policy = new Map<string, string>();
  for (const [directive, sources] of readRecord(given, "policy")) {
    if (!DIRECTIVES.includes(directive)) {
      throw new InvalidArgumentError(
        `the option policy takes only the directives ${DIRECTIVES.join(", ")}`,
      );
    }
    if (typeof sources !== "string" || !/^[\w'*:/. -]+$/.test(sources)) {
      throw new InvalidArgumentError(`policy.${directive} is a list of sources, such as "'self'"`);
    }
    policy.set(directive, sources);
  }
  return policy;
}

import type { VerificationReason } from "../errors/errors.js";
import type { FurtherActions } from "./defined.js";

export type { FurtherActions } from "./defined.js";

/** What a link does in every installation; others are in the option `actions`. */
export type Action = "activate" | "recover";

/**
 * An action of your own. None of it may change once links were sent, and all verifiers and signers
 * have the same.
 */
export interface FurtherAction {
  /** Its number in tokens, from 3 to 127. */
  readonly number: number;
  /** The path of its links, such as `/invite`. */
  readonly path: string;
  /** How many digits its code has; 0 for an action without a code. */
  readonly digits: 0 | 5 | 6 | 7 | 8;
}

/** Bytes that belong to the caller. */
// `Uint8Array<ArrayBuffer>` in the words of TypeScript before 5.7, too,
// in which it has no parameter.
export type Bytes = ReturnType<Uint8Array["slice"]>;

/**
 * The value of the cookie that your application set in the browser that asked for a link, as the
 * request has it: 43 characters, the base64url of 32 random bytes. Whatever is no such text, such
 * as the list of a cookie that came twice, counts as no cookie.
 */
export type Nonce = string | readonly string[] | null | undefined;

/**
 * In which browser a link was opened: the one that asked for it, another one, or any at all of a
 * link that is not bound.
 */
export type Browser = "same" | "other" | "unbound";

/** What is known of the browser that a request came from. */
export interface Visitor {
  /** Links that are bound to a browser work in no other one; all others ignore it. */
  readonly nonce?: Nonce;
}

/** A shared key: 64 hexadecimal characters of either case, or 32 bytes. */
export type SharedKey = string | Uint8Array;

/** What the verifiers of all entries take. */
export interface CommonOptions<Format extends string, Further extends string = never> {
  /**
   * Further actions, which v2 and v3 carry, as `defineActions` of `mailroom-verifier/actions` makes
   * them. A token of an action that the verifier does not know is malformed.
   *
   * @default `activate` and `recover` alone, which are always known
   * @example
   * const actions = defineActions({ invite: { number: 4, path: "/invite", digits: 0 } });
   * const verifier = createVerifier({ keys: process.env["MAILROOM_SECRET_KEY"] ?? "", actions });
   * verifier.verify(token, { action: "invite" });
   */
  readonly actions?: FurtherActions<Further> | undefined;
  /**
   * The formats that are accepted. A token of another one is refused like a forged one.
   *
   * @default every format that the keys can verify
   */
  readonly accept?: readonly Format[] | undefined;
  /**
   * Tells the time in seconds since the Unix epoch; read at each call.
   *
   * @default the system's clock
   */
  readonly clock?: (() => number) | undefined;
  /**
   * By how many seconds this clock may be ahead of the database's: a link is accepted for so much
   * longer. Whole seconds below 1000.
   *
   * @default 0
   */
  readonly clockTolerance?: number | undefined;
}

/** What {@link createVerifier} takes. Options of other names are refused. */
export interface VerifierOptions<Further extends string = never>
  extends CommonOptions<"v1" | "v2", Further> {
  /**
   * The shared key, or a ring of at most 1024: the current one first, then earlier and upcoming
   * ones. The bytes are copied. Rotate in this order: give every verifier the new key, let the
   * signer use it, wait until the last old link has expired, take the old key from the ring.
   *
   * A function is called at the first use, and not again once it gave good keys: for a verifier
   * that is made while the application is built, where the key is not there. What is wrong with the
   * keys is thrown by that first use.
   *
   * @example
   * const verifier = createVerifier({ keys: () => process.env["MAILROOM_SECRET_KEY"] });
   */
  readonly keys:
    | SharedKey
    | readonly SharedKey[]
    | (() => SharedKey | readonly SharedKey[] | undefined);
  /**
   * Visitors of a page can read the key in it and in its workers, and forge links. `true` allows a
   * key in a page all the same, for tests and for pages that nobody else can open.
   *
   * @default false
   */
  readonly dangerouslyAllowSecretInBrowser?: boolean | undefined;
}

/**
 * What `verify` expects of a token: an action without a code, such as an activation. Options of
 * other names are refused.
 */
export interface ExpectedActivation<Further extends string = never> extends Visitor {
  readonly action: "activate" | Further;
}

/** What `verifyWithUncountedCode` expects of a token. Options of other names are refused. */
export interface ExpectedRecovery<Further extends string = never> extends Visitor {
  readonly action: "recover" | Further;
  /** The digits that the person typed, as they came: five for a recovery. */
  readonly code: string;
}

/** The same for `tryVerifyWithUncountedCode`, with any value that the visitor sent as a code. */
export interface TriedRecovery<Further extends string = never> extends Visitor {
  readonly action: "recover" | Further;
  readonly code: unknown;
}

/**
 * The action that the caller expects of a link, before its code is typed.
 * Options of other names are refused.
 */
export interface LinkExpectation<Further extends string = never> extends Visitor {
  readonly action: Action | Further;
}

/**
 * The token or the code is not valid. A plain object: it can be logged, serialised, compared and
 * returned from a server action as it is.
 */
export interface Refused {
  readonly ok: false;
  /** Why: a constant that never changes. */
  readonly reason: VerificationReason;
  /** Whose fault it is: always the visitor's. */
  readonly kind: "visitor";
  /** Why, in a sentence, for logs. It shows nothing of the token. */
  readonly message: string;
}

import type { VerificationReason } from "./errors.js";

/** What a link does. */
export type Action = "activate" | "recover";

/** Bytes that belong to the caller. */
// `Uint8Array<ArrayBuffer>` in the words of TypeScript before 5.7, too, in which it has no parameter.
export type Bytes = ReturnType<Uint8Array["slice"]>;

/** A shared key: 64 hexadecimal characters of either case, or 32 bytes. */
export type SharedKey = string | Uint8Array;

/** What the verifiers of all entries take. */
export interface CommonOptions<Format extends string> {
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
   * By how many seconds this clock may be ahead of the database's: a link is accepted for so much longer. Whole seconds
   * below 1000.
   *
   * @default 0
   */
  readonly clockTolerance?: number | undefined;
}

/** What {@link createVerifier} takes. Options of other names are refused. */
export interface VerifierOptions extends CommonOptions<"v1" | "v2"> {
  /**
   * The shared key, or a ring of at most 1024: the current one first, then earlier and upcoming ones. The bytes are copied.
   * Rotate in this order: give every verifier the new key, let the signer use it, wait until the last old link has
   * expired, take the old key from the ring.
   *
   * A function is called at the first use, and not again once it gave good keys: for a verifier that is made while the
   * application is built, where the key is not there. What is wrong with the keys is thrown by that first use.
   *
   * @example
   * const verifier = createVerifier({ keys: () => process.env["MAILROOM_SECRET_KEY"] });
   */
  readonly keys: SharedKey | readonly SharedKey[] | (() => SharedKey | readonly SharedKey[] | undefined);
  /**
   * Visitors of a page can read the key in it and in its workers, and forge links. `true` allows a key in a page all the
   * same, for tests and for pages that nobody else can open.
   *
   * @default false
   */
  readonly dangerouslyAllowSecretInBrowser?: boolean | undefined;
}

/** What `verify` expects of a token: an activation, which has no code. Options of other names are refused. */
export interface ExpectedActivation {
  readonly action: "activate";
}

/** What `verifyWithUncountedCode` expects of a token. Options of other names are refused. */
export interface ExpectedRecovery {
  readonly action: "recover";
  /** The five digits that the person typed, as they came. */
  readonly code: string;
}

/** The same for `tryVerifyWithUncountedCode`, with any value that the visitor sent as a code. */
export interface TriedRecovery {
  readonly action: "recover";
  readonly code: unknown;
}

/** The action that the caller expects of a link, before its code is typed. Options of other names are refused. */
export interface LinkExpectation {
  readonly action: Action;
}

/**
 * The token or the code is not valid. A plain object: it can be logged, serialised, compared and returned from a server
 * action as it is.
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

// The bases of the classes of errors, which are generated.

import type { RedemptionReason, VerificationReason } from "./generated/classes.js";

/**
 * Whose fault an error is. `"visitor"`: the token or the code is not valid; tell the visitor so.
 * `"operator"`: the program, its keys or its store are at fault; the link may be valid, so tell the
 * visitor to try again later.
 */
export type ErrorKind = "visitor" | "operator";

/** A class of errors. */
interface Reasoned {
  readonly reason: string;
  readonly kind: ErrorKind;
}

/** The base of all errors of this package. */
export abstract class VerifierError extends Error {
  static readonly kind: ErrorKind = "operator";
  /** Identifies the failure; never changes between versions. */
  declare readonly reason: string;
  /** Whose fault it is. */
  declare readonly kind: ErrorKind;
  /** The address of what to do about it. */
  declare readonly help: string;

  constructor(message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    const { reason, kind } = new.target as unknown as Reasoned;
    this.reason = reason;
    this.kind = kind;
    // GitHub's anchors are in lower case, as all of this address is.
    this.help =
      `https://github.com/mailroom/mailroom/blob/main/verifier-wasm/npm/errors.md#${reason}`.toLowerCase();
  }

  // On the prototype, so that stack traces begin with it, and made of the reason,
  // which minified programs keep.
  override get name(): string {
    const { reason = "ERR_VERIFIER" } = this.constructor as unknown as Partial<Reasoned>;
    return `${reason
      .slice(3)
      .toLowerCase()
      .replace(/_(.)/g, (_, first) => first.toUpperCase())}Error`;
  }
}

/**
 * The token, or the code typed beside it, was refused.
 * This is the visitor's fault, not the program's.
 */
export abstract class VerificationError extends VerifierError {
  static override readonly kind = "visitor";
  declare readonly kind: "visitor";
  declare readonly reason: VerificationReason;
}

/** The guard does not let a token through, although the token itself may be good. */
export abstract class RedemptionError extends VerifierError {
  declare readonly reason: RedemptionReason;
}

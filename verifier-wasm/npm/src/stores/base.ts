// What the stores of this package have in common.

import { demandEntry } from "../arguments/bytes.js";
import { described } from "../arguments/described.js";
import { InvalidArgumentError, StoreFullError, TokenExpiredError } from "../errors/errors.js";
import type { TokenStore } from "./token_store.js";

/**
 * The option `namespace`: keeps installations apart that share a store, since a copied database has
 * the same ids.
 */
export function readNamespace(namespace: unknown): string {
  if (typeof namespace !== "string" || !/^[\w.-]{1,64}$/.test(namespace)) {
    throw new InvalidArgumentError(
      "the option namespace must be a string of 1 to 64 letters, digits, dots, " +
        `hyphens and underscores, not ${described(namespace)}`,
    );
  }
  return namespace;
}

/** A store whose methods validate their arguments before they send anything. */
export function demanding(store: Required<TokenStore>): Required<TokenStore> {
  return Object.freeze<Required<TokenStore>>({
    async consume(...given) {
      demandEntry(...given);
      return store.consume(...given);
    },
    async release(...given) {
      demandEntry(...given);
      return store.release(...given);
    },
    async attempt(...given) {
      demandEntry(...given);
      return store.attempt(...given);
    },
    async withdraw(...given) {
      demandEntry(...given);
      return store.withdraw(...given);
    },
  });
}

/** For a `rememberUntil` that is over. */
export function tooLate(): TokenExpiredError {
  return new TokenExpiredError("the time until which to remember this token is over");
}

/** For one owner more than a store remembers. */
export function tooManyOwners(): StoreFullError {
  return new StoreFullError(
    "100 redemptions of this link were given back: no further one is remembered",
  );
}

/** An id or an owner as text, for stores without binary values. */
export function hexadecimal(id: Uint8Array): string {
  let text = "";
  for (const byte of id) text += byte.toString(16).padStart(2, "0");
  return text;
}

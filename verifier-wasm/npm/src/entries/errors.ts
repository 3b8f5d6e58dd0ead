/**
 * Every error of this package, one class for each stable `reason`. All entries share this module,
 * so `instanceof` works whichever of them threw. No message contains a token,
 * a secret, a code or a key.
 *
 * @module
 */

export * from "../errors/errors.js";

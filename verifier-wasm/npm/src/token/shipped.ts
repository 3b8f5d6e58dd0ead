import { defined } from "./defined.js";

const FURTHER = {
  change_email: { number: 3, path: "/change-email", digits: 0 },
  invite: { number: 4, path: "/invite", digits: 0 },
  sign_in: { number: 5, path: "/sign-in", digits: 6 },
} as const;

/**
 * The actions that Mailroom's database comes with beside `activate` and `recover`, as the option
 * `actions` of a verifier takes them.
 *
 * @example
 * const verifier = createVerifier({ keys, actions: FURTHER_ACTIONS });
 */
export const FURTHER_ACTIONS = /* @__PURE__ */ defined(FURTHER);

/**
 * All six actions that Mailroom's database comes with: their numbers in tokens, the paths of their
 * links, and how many digits their codes have. A notice has no link.
 */
export const SHIPPED_ACTIONS = {
  activate: { number: 1, path: "/activate", digits: 0 },
  recover: { number: 2, path: "/recover", digits: 5 },
  ...FURTHER,
  notice: { number: 6, path: undefined, digits: 0 },
} as const;

/** The name of an action that the database comes with. */
export type ShippedAction = keyof typeof SHIPPED_ACTIONS;

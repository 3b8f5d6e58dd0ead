import { readOptions, unreadable } from "../arguments/options.js";
import { InvalidArgumentError } from "../errors/errors.js";
import { isDefinition } from "../token/definition.js";
import { SHIPPED_ACTIONS } from "../token/shipped.js";

/** What is known of an action; a notice has no path. */
export interface TestAction {
  readonly number: number;
  readonly path: string | undefined;
  readonly digits: number;
}

/** The actions that the database comes with, and those of the option `actions`. */
export class TestActions {
  readonly #named = new Map<unknown, TestAction>(Object.entries(SHIPPED_ACTIONS));

  constructor(given: unknown) {
    for (const [name, definition] of entriesOf(given)) {
      const [number, path, digits] = readOptions(definition, ["number", "path", "digits"]);
      if (!isDefinition(name, number, path, digits)) {
        throw new InvalidArgumentError(
          "the option actions must be one such as " +
            '{ invite: { number: 4, path: "/invite", digits: 0 } }',
        );
      }
      this.#named.set(name, { number, path, digits } as TestAction);
    }
  }

  find(name: unknown): TestAction | undefined {
    return this.#named.get(name);
  }
}

function entriesOf(given: unknown): [string, unknown][] {
  if (given === undefined) return [];
  if (typeof given !== "object" || given === null) {
    throw new InvalidArgumentError("the option actions must be an object");
  }
  try {
    return Object.entries(given);
  } catch (cause) {
    throw unreadable(cause);
  }
}

import { described } from "../arguments/described.js";
import { unreadable } from "../arguments/options.js";
import { InvalidArgumentError } from "../errors/errors.js";
import type { Bytes } from "./types.js";

/** An action that a verifier knows. */
export interface KnownAction {
  readonly name: string;
  /** Its number in tokens. */
  readonly number: number;
  /** The number of digits of its code; 0 for none. */
  readonly digits: number;
  /** Of all actions of its verifier. */
  readonly list: Bytes;
}

/** The actions of a verifier. */
export class Actions {
  readonly #named = new Map<string, KnownAction>();
  /** For each number the digits of the code, or 255; as the module reads it. */
  readonly list: Bytes = new Uint8Array(128).fill(255);

  constructor() {
    this.add("activate", 1, 0);
    this.add("recover", 2, 5);
  }

  add(name: string, number: number, digits: number): void {
    this.list[number] = digits;
    this.#named.set(name, { name, number, digits, list: this.list });
  }

  find(name: unknown): KnownAction | undefined {
    return this.#named.get(name as string);
  }

  /** The action that a caller names. */
  demand(name: unknown): KnownAction {
    const found = this.find(name);
    if (found) return found;
    const names = [...this.#named.keys()].map((known) => `"${known}"`);
    throw new InvalidArgumentError(`the option action must be ${names.join(" or ")}`);
  }
}

/** Those of a verifier that is given no others. */
export const BUILT_IN = new Actions();

const EXAMPLE = '{ invite: { number: 4, path: "/invite", digits: 0 } }';

/** The most that can have numbers of their own. */
const MOST = 125;

/** The option `actions`: further actions by their names. */
export function readActions(given: unknown): Actions {
  if (given === undefined) return BUILT_IN;
  const actions = new Actions();
  // What belongs to one action, and to which.
  const taken = new Map<unknown, string>([
    ["/activate", "activate"],
    ["/recover", "recover"],
  ]);
  const definitions = plain(given, MOST, `actions is an object such as ${EXAMPLE}`);
  // Whatever has no properties, such as a Map, is more likely a mistake.
  if (definitions.length === 0)
    throw fault(`actions is empty: leave it out, or give an object such as ${EXAMPLE}`);
  for (const [name, definition] of definitions) {
    if (!/^[a-z][a-z0-9_]{0,62}$/.test(name)) {
      throw fault(
        "actions has names of lower-case letters, digits and _, which begin with a letter",
      );
    }
    if (/^(activate|recover|activation|password_recovery)$/.test(name)) {
      throw fault(`actions cannot define ${name}, which every verifier has`);
    }
    const what = `actions.${name}`;
    const values = new Map(
      plain(definition, 3, `${what} has number, path and digits: see ${EXAMPLE}`),
    );
    const [number, path, digits] = ["number", "path", "digits"].map((key) => values.get(key));
    if (values.size !== 3 || [number, path, digits].includes(undefined)) {
      throw fault(`${what} has number, path and digits, and nothing else: see ${EXAMPLE}`);
    }
    if (!Number.isInteger(number) || !((number as number) >= 3 && (number as number) <= 127)) {
      throw fault(`${what}.number is a whole number from 3 to 127, not ${described(number)}`);
    }
    if (
      typeof path !== "string" ||
      path.length > 255 ||
      !/^(\/(?!\.{1,2}(\/|$))[\w.~-]+)+$/.test(path)
    ) {
      throw fault(
        `${what}.path must be a path of letters, digits, -, ., _ and ~, such as "/team/join"`,
      );
    }
    if (![0, 5, 6, 7, 8].includes(digits as number)) {
      throw fault(`${what}.digits is 0 for no code, or 5, 6, 7 or 8, not ${described(digits)}`);
    }
    for (const [key, value] of [
      ["number", number],
      ["path", path],
    ] as const) {
      const other = taken.get(value);
      if (other) throw fault(`${what}.${key} is that of ${other}: give each action its own`);
      taken.set(value, name);
    }
    actions.add(name, number as number, digits as number);
  }
  return actions;
}

/** The own properties of an object, which are plain values. */
function plain(given: unknown, most: number, form: string): [string, unknown][] {
  const values: [string, unknown][] = [];
  let getter = false;
  try {
    if (typeof given === "object" && given !== null && !Array.isArray(given)) {
      const names = Reflect.ownKeys(given);
      if (names.length <= most && names.every((name) => typeof name === "string")) {
        for (const name of names) {
          const property = Reflect.getOwnPropertyDescriptor(given, name);
          if (property && "value" in property) values.push([name, property.value]);
          else getter = true;
        }
        if (!getter) return values;
      }
    }
  } catch (cause) {
    throw unreadable(cause);
  }
  throw fault(getter ? "actions has a getter: give plain values" : form);
}

function fault(message: string): InvalidArgumentError {
  return new InvalidArgumentError(`the option ${message}`);
}

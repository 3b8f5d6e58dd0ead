import { described } from "../arguments/described.js";
import { unreadable } from "../arguments/options.js";
import { InvalidArgumentError } from "../errors/errors.js";
import { isLength, isNumber, isPath, NAME, RESERVED } from "../token/definition.js";
import { Actions, BUILT_IN } from "../token/known_actions.js";

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
    if (!NAME.test(name)) {
      throw fault(
        "actions has names of lower-case letters, digits and _, which begin with a letter",
      );
    }
    if (RESERVED.test(name)) {
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
    if (!isNumber(number)) {
      throw fault(`${what}.number is a whole number from 3 to 127, not ${described(number)}`);
    }
    if (!isPath(path)) {
      throw fault(
        `${what}.path must be a path of letters, digits, -, ., _ and ~, such as "/team/join"`,
      );
    }
    if (!isLength(digits)) {
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
    actions.add(name, number, digits);
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

import { invalid, reading } from "../verifier/options.js";
import { DEFINED, type Defined, defined } from "./defined.js";
import { isDefinition, NAME } from "./definition.js";
import type { FurtherAction } from "./types.js";

type Definitions = { readonly [name: string]: FurtherAction };

/** @internal What the entry calls `defineActions`, by the rules of `definition.ts`. */
export function define(given: unknown): Defined<Definitions> {
  return reading("actions", () => {
    const taken = new Set<unknown>(["/activate", "/recover"]);
    const definitions = plain(given).map(([name, definition]) => {
      const own: Readonly<Record<string, unknown>> = Object.fromEntries(plain(definition));
      const { number, path, digits } = own;
      const isOwn = Object.keys(own).length === 3 && !taken.has(number) && !taken.has(path);
      // Another name may be a key by mistake, which must not get into a log.
      if (!isOwn || !isDefinition(name, number, path, digits))
        throw invalid(NAME.test(name) ? `actions.${name}` : "actions");
      taken.add(number).add(path);
      return [name, Object.freeze({ number, path, digits } as FurtherAction)] as const;
    });
    if (definitions.length === 0) throw invalid("actions");
    return defined(Object.fromEntries(definitions));
  });
}

/** The own properties of an object, which are plain values: getters could answer twice. */
function plain(given: unknown): [string, unknown][] {
  // What is no object throws here; another symbol does where its name is judged.
  const names = Reflect.ownKeys(given as object).filter((name) => name !== DEFINED);
  return names.map((name) => [
    name as string,
    Reflect.getOwnPropertyDescriptor(given as object, name)?.value,
  ]);
}

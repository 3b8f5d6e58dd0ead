// How adapters read what they are given.

import { described } from "../../arguments/described.js";
import { readMethod } from "../../arguments/options.js";
import { InvalidArgumentError } from "../../errors/errors.js";

export type Method = (...given: unknown[]) => unknown;

/** The method of a client, which has to be there. */
export function demandMethod(client: unknown, name: string, wanted: string): Method {
  const method = readMethod(client, name);
  if (method) return method;
  throw new InvalidArgumentError(`${wanted}, not ${described(client)}`);
}

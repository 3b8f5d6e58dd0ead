// What a link can be for, as the table mailroom.actions has it: the two that every verifier knows,
// and one more.

import { defineActions } from "mailroom-verifier/actions";

export const FURTHER = defineActions({ invite: { number: 4, path: "/invite", digits: 0 } });

export type Further = Extract<keyof typeof FURTHER, string>;

export type Action = "activate" | "recover" | Further;

/** The action of a page of links, or nothing. */
export function actionOf(path: string): Action | undefined {
  const name = path.slice(1);
  return name === "activate" || name === "recover" || name === "invite" ? name : undefined;
}

// What a link can be for, as the table mailroom.actions has it: the two that every verifier knows,
// and one more.

export const FURTHER = { invite: { number: 4, path: "/invite", digits: 0 } } as const;

export type Further = keyof typeof FURTHER;

export type Action = "activate" | "recover" | Further;

/** The action of a page of links, or nothing. */
export function actionOf(path: string): Action | undefined {
  const name = path.slice(1);
  return name === "activate" || name === "recover" || name === "invite" ? name : undefined;
}

// The account and the invitation as the database sees them.

import { byId, element } from "./element.ts";
import type { Account, Invitation } from "./messages.ts";
import { clock } from "./time.ts";

const MEANING = {
  provisioned: "waits for its activation",
  active: "can sign in",
  suspended: "is locked",
};

export function showAccount(account: Account | null): void {
  if (account === null) {
    byId("account").replaceChildren(
      element("p", { class: "note" }, "The database has no such account yet."),
    );
    return;
  }
  const { login, email, status, activation, recovery } = account;
  const badge = element("span", { class: `badge badge-${status}`, id: "status" }, status);
  const facts = element("dl", { class: "facts" });
  const fact = (name: string, ...value: (Node | string)[]) =>
    facts.append(element("dt", {}, name), element("dd", {}, ...value));
  fact("Login", element("bdi", {}, login));
  fact("Email", element("bdi", {}, email));
  fact("Status", badge, ` ${MEANING[status]}`);
  if (activation !== null) fact("Activation", stateOf(activation));
  if (recovery !== null) {
    fact("Recovery", stateOf(recovery));
    fact("Codes tried", `${recovery.tries ?? 0} of 5, as the database counts`);
  }
  byId("account").replaceChildren(facts);
}

export function showInvitation(invitation: Invitation | null): void {
  byId("invitation").replaceChildren(...(invitation === null ? [] : [drawn(invitation)]));
}

function drawn({ id, team, acceptedAt }: Invitation): HTMLElement {
  const state =
    acceptedAt === null ? "not accepted yet" : `accepted at ${clock(acceptedAt * 1000)}`;
  const facts = element("dl", { class: "facts" });
  facts.append(element("dt", {}, "Row"), element("dd", {}, element("code", {}, id)));
  facts.append(element("dt", {}, "Team"), element("dd", {}, element("bdi", {}, team)));
  facts.append(element("dt", {}, "Invitation"), element("dd", {}, state));
  return facts;
}

function stateOf({
  usedAt,
  expiresAt,
}: {
  readonly usedAt: number | null;
  readonly expiresAt: number;
}): string {
  return usedAt === null
    ? `unused, valid until ${clock(expiresAt * 1000)}`
    : `used at ${clock(usedAt * 1000)}`;
}

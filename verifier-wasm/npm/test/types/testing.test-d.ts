// The entry for the tests of applications.

import { createMemoryStore, type TokenStore } from "mailroom-verifier";
import { defineActions } from "mailroom-verifier/actions";
import { createLinkHandler } from "mailroom-verifier/handler";
import { createTestLinks, inbox, type TestLink, type TestLinks } from "mailroom-verifier/testing";

type Same<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
declare function same<A, B>(proof: Same<A, B>): void;
declare const verifier: Parameters<typeof createLinkHandler>[0]["verifier"], store: TokenStore;

export async function use(): Promise<void> {
  const links = await createTestLinks();
  same<typeof links, TestLinks>(true);
  const link = await links.sign({ action: "sign_in", format: "v3", state: "forged", bound: true });
  same<typeof link, TestLink<"sign_in">>(true);
  createLinkHandler({ verifier, store: createMemoryStore({ capacity: 1 }), redeem: links.redeem });
  await links.sign({ action: "activate", state: "used", store });
  // @ts-expect-error a notice has no link
  await links.sign({ action: "notice" });
  // @ts-expect-error there is no such action
  await links.sign({ action: "join" });
  // @ts-expect-error a key is never given
  await createTestLinks({ keys: "" });
  const actions = defineActions({ join: { number: 9, path: "/join", digits: 0 } });
  const more = await createTestLinks({ actions });
  same<(typeof more)["sharedKey"], string>(true);
  await more.sign({ action: "join" });
  const mails = inbox("http://127.0.0.1:8025", { actions, fetch });
  const mail = await mails.mail("ada@example.test", "join");
  same<typeof mail.code, string | undefined>(true);
  await mails.link("ada@example.test", "activate", { after: mail, timeout: 30 });
  // @ts-expect-error which action it is of
  await mails.link("ada@example.test");
}

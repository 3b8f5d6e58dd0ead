/**
 * For the tests of your application: signs links in any state with random keys, and waits for mails
 * in the inbox of `mailroom dev` or in Mailpit.
 *
 * @module
 */

import { atCaller } from "../arguments/caller.js";
import { readOptions } from "../arguments/options.js";
import { readClock } from "../arguments/seconds.js";
import { TestActions } from "../testing/actions.js";
import { type Inbox, type InboxFetch, makeInbox } from "../testing/inbox.js";
import { makeTestLinks, type TestLinks } from "../testing/links.js";
import type { FurtherActions } from "../token/types.js";

export type { TokenStore } from "../stores/token_store.js";
export type { TestRedeeming, TestVerdict } from "../testing/database.js";
export type { Inbox, InboxFetch, InboxMail, WaitOptions } from "../testing/inbox.js";
export type {
  TestFormat,
  TestLink,
  TestLinkOptions,
  TestLinks,
  TestRedeem,
  TestState,
} from "../testing/links.js";
export type { ShippedAction } from "../token/shipped.js";
export type { Bytes, FurtherActions } from "../token/types.js";

/** What {@link createTestLinks} takes. Options of other names are refused. */
export interface TestLinksOptions<Further extends string = never> {
  /** Actions of your own, as the option of verifiers; the database's six are known. */
  readonly actions?: FurtherActions<Further> | undefined;
  /** In seconds since the Unix epoch. @default the system's clock */
  readonly clock?: (() => number) | undefined;
}

/** What {@link inbox} takes. Options of other names are refused. */
export interface InboxOptions<Further extends string = never> {
  /** Actions of your own, as the option of verifiers; the database's six are known. */
  readonly actions?: FurtherActions<Further> | undefined;
  /** For an inbox that asks for a password, for instance. @default that of the platform */
  readonly fetch?: InboxFetch | undefined;
}

/**
 * Makes new keys, and what signs with them and stands for the database. No other key can be given:
 * these links are good nowhere else.
 *
 * @throws InvalidArgumentError
 * @throws PlatformUnavailableError where WebCrypto has no Ed25519
 * @example
 * const links = await createTestLinks();
 * const verifier = createVerifier({ keys: links.sharedKey });
 * const { token, code } = await links.sign({ action: "recover" });
 * verifier.verifyWithUncountedCode(token, { action: "recover", code: code ?? "" });
 */
export async function createTestLinks<const Further extends string = never>(
  options?: TestLinksOptions<Further>,
): Promise<TestLinks<Further>> {
  const [actions, clock] = options === undefined ? [] : readOptions(options, ["actions", "clock"]);
  return makeTestLinks(new TestActions(actions), readClock(clock)) as Promise<never>;
}

/**
 * The mails of tests, at the address of `mailroom dev`, of Mailpit, or of what answers as that
 * does.
 *
 * @throws InvalidArgumentError
 * @example
 * const link = await inbox("http://127.0.0.1:8025").link("ada@example.test", "activate");
 */
export function inbox<const Further extends string = never>(
  url: string,
  options?: InboxOptions<Further>,
): Inbox<Further> {
  return atCaller(inbox, () => {
    const [actions, fetch] =
      options === undefined ? [] : readOptions(options, ["actions", "fetch"]);
    return makeInbox(url, new TestActions(actions), fetch) as Inbox<Further>;
  });
}

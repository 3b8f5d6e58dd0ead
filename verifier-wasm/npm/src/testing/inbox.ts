import { readOptions } from "../arguments/options.js";
import { readSpan } from "../arguments/seconds.js";
import { InvalidArgumentError, MailMissingError } from "../errors/errors.js";
import type { ShippedAction } from "../token/shipped.js";
import type { TestActions } from "./actions.js";
import { mailOfDev, mailsOfDev } from "./dev.js";
import { mailOfMailpit, mailsOfMailpit } from "./mailpit.js";

/** A mail that came. */
export interface InboxMail {
  readonly id: string;
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  readonly html: string;
  /** Where its button leads; `undefined` for a mail without a link. */
  readonly link: string | undefined;
  /** `undefined` for a mail without a code. */
  readonly code: string | undefined;
}

/** For which mail is waited. Options of other names are refused. */
export interface WaitOptions {
  /** A mail, such as that of the request before: only later ones count. */
  readonly after?: Pick<InboxMail, "id"> | undefined;
  /** In seconds, up to 600. @default 10 */
  readonly timeout?: number | undefined;
}

/** An inbox of tests. Its methods need no `this`. */
export interface Inbox<Further extends string = never> {
  /**
   * Waits for a mail to this address and returns its link: of several mails that of the newest.
   *
   * @throws MailMissingError when no such mail comes in time, or when the inbox cannot be asked
   * @example
   * const mails = inbox("http://127.0.0.1:8025");
   * await page.goto(await mails.link("ada@example.test", "activate"));
   */
  link(to: string, action: ShippedAction | Further, options?: WaitOptions): Promise<string>;
  /** The same, but returns the mail, which also has the code. Without an action it is any mail. */
  mail(to: string, action?: ShippedAction | Further, options?: WaitOptions): Promise<InboxMail>;
}

/** Asks for an address, as `fetch` of the platform does. */
export type InboxFetch = (
  url: string,
  options: { readonly signal: AbortSignal },
) => PromiseLike<{ readonly ok: boolean; json(): PromiseLike<unknown> }>;

/** What is looked for. */
export interface Sought {
  readonly base: string;
  readonly to: string;
  readonly action: string | undefined;
  /** Its id; the empty text for none. */
  readonly after: string;
  readonly actions: TestActions;
  /** Gets JSON; nothing for an answer that is none. */
  get(address: string): Promise<unknown>;
}

/** A list of mails, the newest first; nothing where the inbox is of another kind. */
type Lists = (sought: Sought, seconds: number) => Promise<readonly unknown[] | undefined>;
type Reads = (sought: Sought, found: unknown) => Promise<InboxMail | undefined>;

const KINDS: readonly { readonly list: Lists; readonly read: Reads }[] = [
  { list: mailsOfDev, read: mailOfDev },
  { list: mailsOfMailpit, read: mailOfMailpit },
];

/** In milliseconds, between two looks into the inbox. */
const PAUSE = 100;

/** Those of the platform, also where a test replaces the clock. */
const { setTimeout: after, performance: watch } = globalThis;

/** @internal What the entry calls `inbox`. */
export function makeInbox(url: unknown, actions: TestActions, asking: unknown): Inbox<string> {
  if (typeof url !== "string" || !/^https?:\/\/[^?#@\s]+$/.test(url)) {
    throw new InvalidArgumentError("an inbox is an address such as http://127.0.0.1:8025");
  }
  if (asking !== undefined && typeof asking !== "function") {
    throw new InvalidArgumentError("the option fetch must be a function");
  }
  const base = url.replace(/\/+$/, "");

  async function mail(to: unknown, action: unknown, options: unknown): Promise<InboxMail> {
    if (typeof to !== "string" || !/^[^\s"]+@[^\s"]+$/.test(to)) {
      throw new InvalidArgumentError("a mail is waited for by an address such as ada@example.test");
    }
    if (action !== undefined && (typeof action !== "string" || !actions.find(action))) {
      throw new InvalidArgumentError("the inbox knows no such action: give it the option actions");
    }
    const [later, timeout = 10] =
      options === undefined ? [] : readOptions(options, ["after", "timeout"]);
    const seconds = readSpan(timeout, { name: "timeout", least: 0, most: 600 });
    const until = watch.now() + 1_000 * seconds;
    const id = later === undefined ? "" : idOf(later);
    const get = (address: string) => asked(asking as InboxFetch | undefined, address, seconds);
    const sought: Sought = { base, to, action, after: id, actions, get };
    for (;;) {
      const left = Math.max(0, until - watch.now());
      const found = await newest(sought, left / 1_000);
      if (found !== undefined) return found;
      if (left <= PAUSE) {
        const what = action === undefined ? "mail" : `mail of the action ${action}`;
        throw new MailMissingError(`no ${what} to ${to} came within ${seconds} seconds`);
      }
      await new Promise((resolve) => after(resolve, PAUSE));
    }
  }

  return Object.freeze<Inbox<string>>({
    mail,
    async link(to, action, options) {
      if (action === undefined)
        throw new InvalidArgumentError("which action the link is of is missing");
      const { link } = await mail(to, action, options);
      if (link !== undefined) return link;
      throw new MailMissingError(`the mail to ${to} has no link of the action ${action}`);
    },
  });
}

/** The newest mail that is sought, if there is one. */
async function newest(sought: Sought, seconds: number): Promise<InboxMail | undefined> {
  for (const { list, read } of KINDS) {
    const mails = await list(sought, seconds);
    if (mails === undefined) continue;
    for (const found of mails) {
      const mail = await read(sought, found);
      if (mail !== undefined) return mail;
    }
    return undefined;
  }
  throw new MailMissingError(`${sought.base} answers neither as mailroom dev nor as Mailpit does`);
}

function idOf(mail: unknown): string {
  try {
    const { id } = mail as InboxMail;
    if (typeof id === "string") return id;
  } catch (cause) {
    throw new InvalidArgumentError("the option after cannot be read", { cause });
  }
  throw new InvalidArgumentError("the option after must be a mail of this inbox");
}

/** The JSON that an address has, if it has any. */
async function asked(
  asking: InboxFetch | undefined,
  address: string,
  seconds: number,
): Promise<unknown> {
  let response: Awaited<ReturnType<InboxFetch>>;
  try {
    const signal = AbortSignal.timeout(1_000 * (seconds + 30));
    response = await (asking ?? fetch)(address, { signal });
  } catch (cause) {
    const { origin } = new URL(address);
    throw new MailMissingError(`${origin} cannot be asked: is the inbox running?`, { cause });
  }
  try {
    return response.ok === true ? await response.json() : undefined;
  } catch {
    // A page, for instance.
    return undefined;
  }
}

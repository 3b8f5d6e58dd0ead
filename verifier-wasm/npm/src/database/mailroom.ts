import { described } from "../arguments/described.js";
import { readOptions, unreadable } from "../arguments/options.js";
import { InvalidArgumentError } from "../errors/errors.js";
import { definedIn, type FurtherActions } from "../token/defined.js";
import { SHIPPED_ACTIONS, type ShippedAction } from "../token/shipped.js";
import { byStatements, type Caller, type Driver, driverOf } from "./adapter.js";
import type { FunctionName, Values } from "./call.js";
import {
  demandBytes,
  demandText,
  demandToken,
  readBytes,
  readCount,
  readDate,
  readFlag,
  readInterval,
  readJson,
  readSent,
  readText,
  readTraceparent,
} from "./values.js";

/** A mail with a link, or a notice. Where a text may be left out, `null` is the same. */
export interface Mail<Further extends string = never> {
  readonly action: ShippedAction | Further;
  readonly recipientEmail: string;
  readonly recipientName?: string | null | undefined;
  /** Whose token it is: the key of your own table, as text. */
  readonly subjectId?: string | null | undefined;
  /** For the sender's template, as JSON. It is not signed. */
  readonly payload?: unknown;
  /** A tag such as `de` or `pt-BR`. */
  readonly language?: string | null | undefined;
  /** When it is sent, at most a year from now. */
  readonly deliverAt?: Date | null | undefined;
  /** A second call with this key and the same mail answers the first token and sends nothing. */
  readonly idempotencyKey?: string | null | undefined;
  /** The 16 bytes of the browser that the link is for: `binding` of `bindBrowser`. */
  readonly binding?: Uint8Array | null | undefined;
  /** Who is told that the link was used, such as the old address where it changes the address. */
  readonly noticeRecipient?: string | null | undefined;
  /** The trace that it belongs to (W3C Trace Context); what is none is ignored. */
  readonly traceparent?: string | null | undefined;
}

/** What somebody asks for who says who he is: for accounts of Mailroom's own. */
export interface MailRequest<Further extends string = never> {
  readonly emailOrLogin: string;
  readonly action: ShippedAction | Further;
  /** The shortest time between two mails for one account, in seconds; that of the action. */
  readonly cooldown?: number | undefined;
  /** The most mails within `per`. @default 5 */
  readonly atMost?: number | undefined;
  /** In seconds. @default 3600 */
  readonly per?: number | undefined;
  readonly binding?: Uint8Array | null | undefined;
  /** As in {@link Mail}. */
  readonly traceparent?: string | null | undefined;
}

/** What is redeemed; the link that a handler gives to its `redeem` has all of it. */
export interface Redeeming<Further extends string = never> {
  readonly action: ShippedAction | Further;
  /** The 32 bytes of the verified link. */
  readonly secret: Uint8Array;
  /** What was typed. */
  readonly code?: string | null | undefined;
  /** @default false */
  readonly bindingIsProven?: boolean | undefined;
  /** The digits of the browser that asked for the link. */
  readonly browserCode?: string | null | undefined;
}

/** The link that a new one takes the place of. */
export type Renewing<Further extends string = never> = Pick<
  Redeeming<Further>,
  "action" | "secret"
>;

/** What the database says of a link. Commit whatever it says: wrong codes are counted by rows. */
export type Redeemed =
  | {
      readonly verdict: "ok";
      /** The token's id. */
      readonly token: string;
      readonly subjectId: string | null;
    }
  | { readonly verdict: Exclude<DatabaseVerdict, "ok"> };

/** The verdicts of `mailroom.redeem`. */
export type DatabaseVerdict =
  | "ok"
  | "unknown"
  | "used"
  | "expired"
  | "not_eligible"
  | "too_many_attempts"
  | "wrong_code";

const VERDICTS: readonly unknown[] = [
  "ok",
  "unknown",
  "used",
  "expired",
  "not_eligible",
  "too_many_attempts",
  "wrong_code",
] satisfies DatabaseVerdict[];

/**
 * The functions of the database. Ids of tokens are decimal texts: a JavaScript number has no room
 * for all of them, and JSON none for a bigint.
 *
 * What the database refuses is a {@link DatabaseError}, with its SQLSTATE as `code`.
 */
export interface MailroomFunctions<Further extends string = never> {
  /**
   * Makes a token and queues its mail; answers the token's id. It limits nothing.
   *
   * @example
   * const id = await mailroom.enqueue({ action: "recover", recipientEmail, subjectId });
   */
  enqueue(mail: Mail<Further>): Promise<string>;
  /**
   * Makes a token for an account of Mailroom's own, if there is one that may have it; answers
   * nothing in every case.
   */
  request(asked: MailRequest<Further>): Promise<void>;
  /** Uses a link, or says why not. */
  redeem(link: Redeeming<Further>): Promise<Redeemed>;
  /**
   * Mails a new link in place of one that was verified, also where that has expired, was used or is
   * locked, if its subject is who and where he was; answers nothing in every case. It is the option
   * of that name of a handler.
   */
  renewLink(link: Renewing<Further>): Promise<void>;
  /** The five digits that the browser shows that has this binding. */
  browserCode(binding: Uint8Array): Promise<string>;
  /** Ends a token that can still be used; answers whether it could. */
  cancel(token: string | bigint): Promise<boolean>;
  /** Ends the tokens of a subject, or those alone that prove its address; answers how many. */
  cancelSubject(
    subjectId: string,
    options?: { readonly onlyProofs?: boolean | undefined },
  ): Promise<number>;
  /** Has the mails looked at again that wait for their subject to be eligible; how many. */
  recheck(subjectId: string): Promise<number>;
}

/** The functions, also inside of transactions of the application's. */
export interface Mailroom<Transaction, Further extends string = never>
  extends MailroomFunctions<Further> {
  /**
   * The same functions inside of a transaction of the caller's: a mail is sent if that commits, and
   * only then.
   */
  in(transaction: Transaction): MailroomFunctions<Further>;
}

/** What {@link createMailroom} takes beside the adapter. */
export interface MailroomOptions<Further extends string = never> {
  /** `MAILROOM_SCHEMA`, where that is set. @default "mailroom" */
  readonly schema?: string | undefined;
  /** Actions of your own, as a verifier takes them. */
  readonly actions?: FurtherActions<Further> | undefined;
}

/** @internal What redeemWith needs of it. */
export interface Inside {
  readonly driver: Driver;
  readonly redeem: (call: Caller, link: unknown) => Promise<RedeemedIn>;
}

/** @internal */
export interface RedeemedIn {
  readonly verdict: DatabaseVerdict;
  readonly token: string;
  readonly subjectId: string | null;
  readonly transaction: unknown;
}

const insides = /* @__PURE__ */ new WeakMap<object, Inside>();

/** @internal */
export function insideOf(mailroom: unknown): Inside {
  const inside = insides.get(mailroom as object);
  if (inside) return inside;
  throw new InvalidArgumentError(
    `redeemWith takes what createMailroom returns, not ${described(mailroom)}`,
  );
}

/** @internal */
export function makeMailroom(adapter: unknown, options: unknown = {}): Mailroom<unknown, string> {
  const driver = driverOf(adapter);
  const [given, actions] = readOptions(options, ["schema", "actions"]);
  const schema = readSchema(given);
  const names = [...Object.keys(SHIPPED_ACTIONS), ...namesOf(actions)];
  const { transactions } = driver;
  const alone = functionsOf(driver.alone, schema, names);
  const { redeem } = alone;
  const inTransactions = transactions && {
    in(transaction: unknown) {
      if (transaction === driver.client)
        throw new InvalidArgumentError("mailroom.in takes a transaction, not the whole client");
      return functionsOf(byStatements(transactions.inside(transaction)), schema, names).functions;
    },
  };
  // A copy of it would not be known.
  const mailroom = Object.freeze(
    Object.assign(Object.create(null) as object, alone.functions, inTransactions),
  );
  insides.set(mailroom, { driver, redeem });
  return mailroom as Mailroom<unknown, string>;
}

function readSchema(given: unknown): string {
  if (given === undefined) return "mailroom";
  if (typeof given === "string" && /^[a-z_][a-z0-9_]{0,62}$/.test(given)) return given;
  throw new InvalidArgumentError(
    `the option schema must be a name without quotes, not ${described(given)}`,
  );
}

function namesOf(actions: unknown): string[] {
  if (actions === undefined) return [];
  try {
    return definedIn(actions).map(([name]) => name);
  } catch (cause) {
    throw new InvalidArgumentError(
      "the option actions must be what defineActions of mailroom-verifier/actions has made, " +
        `not ${described(actions)}`,
      { cause },
    );
  }
}

function functionsOf(caller: Caller, schema: string, names: readonly string[]) {
  const ask = (call: Caller, name: FunctionName, values: Values) => call({ name, schema, values });
  const demandAction = (action: unknown) => {
    if (names.includes(action as string)) return action as string;
    throw new InvalidArgumentError(`the option action must be one of ${names.join(", ")}`);
  };

  async function redeem(call: Caller, link: unknown): Promise<RedeemedIn> {
    const [action, secret, code, bindingIsProven, browserCode] = readLink(link);
    const answer = await ask(call, "redeem", {
      action: demandAction(action),
      secret: demandBytes(secret, "secret", 32),
      code: readSent(code, "code"),
      binding_proven: readFlag(bindingIsProven, "bindingIsProven"),
      browser_code: readSent(browserCode, "browserCode"),
    });
    return readRedeemed(answer);
  }

  const functions = Object.freeze<MailroomFunctions<string>>({
    async enqueue(mail) {
      const given = readOptions(mail, [
        ...(["action", "recipientEmail", "recipientName", "subjectId", "payload"] as const),
        ...(["language", "deliverAt", "idempotencyKey", "binding", "noticeRecipient"] as const),
        "traceparent",
      ]);
      const [action, email, name, subject, payload, ...further] = given;
      const [language, deliverAt, key, binding, noticeRecipient, traceparent] = further;
      const answer = await ask(caller, "enqueue", {
        action: demandAction(action),
        recipient_email: demandText(email, "recipientEmail"),
        recipient_name: readText(name, "recipientName"),
        subject_id: readText(subject, "subjectId"),
        payload: readJson(payload, "payload"),
        language: readText(language, "language"),
        deliver_at: readDate(deliverAt, "deliverAt"),
        idempotency_key: readText(key, "idempotencyKey"),
        binding: readBytes(binding, "binding", 16),
        notice_recipient: readText(noticeRecipient, "noticeRecipient"),
        traceparent: readTraceparent(traceparent),
      });
      return textOf(answer, /^\d+$/);
    },
    async request(asked) {
      const [emailOrLogin, action, cooldown, atMost, per, ...further] = readOptions(asked, [
        "emailOrLogin",
        "action",
        "cooldown",
        "atMost",
        "per",
        "binding",
        "traceparent",
      ]);
      const [binding, traceparent] = further;
      await ask(caller, "request", {
        email_or_login: readSent(emailOrLogin, "emailOrLogin") ?? "",
        action: demandAction(action),
        cooldown: readInterval(cooldown, "cooldown"),
        at_most: readCount(atMost, "atMost"),
        per: readInterval(per, "per"),
        binding: readBytes(binding, "binding", 16),
        traceparent: readTraceparent(traceparent),
      });
    },
    async redeem(link) {
      const { verdict, token, subjectId } = await redeem(caller, link);
      return verdict === "ok" ? { verdict, token, subjectId } : { verdict };
    },
    async renewLink(link) {
      const [action, secret] = readOptions(link, ["action", "secret"]);
      await ask(caller, "renew_link", {
        action: demandAction(action),
        secret: demandBytes(secret, "secret", 32),
      });
    },
    async browserCode(binding) {
      const values = { binding: demandBytes(binding, "binding", 16) };
      return textOf(await ask(caller, "browser_code", values), /^\d{5}$/);
    },
    async cancel(token) {
      return flagOf(await ask(caller, "cancel", { token: demandToken(token) }));
    },
    async cancelSubject(subjectId, options = {}) {
      const [onlyProofs] = readOptions(options, ["onlyProofs"]);
      const values = {
        subject_id: demandText(subjectId, "subjectId"),
        only_proofs: readFlag(onlyProofs, "onlyProofs"),
      };
      return Number(textOf(await ask(caller, "cancel_subject", values), /^\d+$/));
    },
    async recheck(subjectId) {
      const values = { subject_id: demandText(subjectId, "subjectId") };
      return Number(textOf(await ask(caller, "recheck", values), /^\d+$/));
    },
  });
  return { functions, redeem };
}

/**
 * The link that a handler gives has properties of its own that are not listed; an object of the
 * caller's has none but these.
 */
function readLink(link: unknown): unknown[] {
  const names = ["action", "secret", "code", "bindingIsProven", "browserCode"] as const;
  try {
    if (typeof link === "object" && link !== null && Object.keys(link).length === 0)
      return names.map((name) =>
        Object.hasOwn(link, name) ? (link as Record<string, unknown>)[name] : undefined,
      );
  } catch (cause) {
    throw unreadable(cause);
  }
  return readOptions(link, names);
}

function wrong(answer: unknown): InvalidArgumentError {
  return new InvalidArgumentError(
    `the client of the database answered with ${described(answer)}, not as the function does`,
  );
}

function textOf(answer: unknown, form: RegExp): string {
  const text = typeof answer === "number" ? String(answer) : answer;
  if (typeof text === "string" && form.test(text)) return text;
  throw wrong(answer);
}

function flagOf(answer: unknown): boolean {
  if (answer === true || answer === "true") return true;
  if (answer === false || answer === "false") return false;
  throw wrong(answer);
}

function readRedeemed(answer: unknown): RedeemedIn {
  let found: unknown = answer;
  if (typeof answer === "string") {
    try {
      found = JSON.parse(answer);
    } catch {
      throw wrong(undefined);
    }
  }
  const { verdict, token, subject_id, transaction } = (found ?? {}) as Record<string, unknown>;
  const isOk = verdict === "ok";
  const isComplete = typeof token === "string" && /^\d+$/.test(token);
  if (!VERDICTS.includes(verdict) || (isOk && !isComplete)) throw wrong(answer);
  if (isOk && typeof subject_id !== "string" && subject_id !== null) throw wrong(answer);
  return {
    verdict: verdict as DatabaseVerdict,
    token: token as string,
    subjectId: subject_id as string | null,
    transaction,
  };
}

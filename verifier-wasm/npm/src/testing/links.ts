import { isBytes } from "../arguments/bytes.js";
import { readOptions } from "../arguments/options.js";
import { type Clock, readTime } from "../arguments/seconds.js";
import { InvalidArgumentError } from "../errors/errors.js";
import type { TokenStore } from "../stores/token_store.js";
import { bytesOf } from "../token/binary.js";
import type { ShippedAction } from "../token/shipped.js";
import type { Bytes } from "../token/types.js";
import { encode } from "../web/encoding.js";
import { hash } from "../web/platform.js";
import type { TestActions } from "./actions.js";
import { type Row, Rows, type TestRedeeming, type TestVerdict } from "./database.js";
import { type Keys, makeKeys, randomBytes, randomDigits } from "./signing.js";

/** In which state a link is. */
export type TestState =
  /** It can be used. */
  | "valid"
  /** It ended an hour ago. Of v1 only `redeem` knows that. */
  | "expired"
  /** `redeem` answers that it was used, and so does the guard of a `store` that is given. */
  | "used"
  /** Another key has signed it, in the name of the right one. */
  | "forged";

/** A version of the format of tokens. */
export type TestFormat = "v1" | "v2" | "v3";

/** What {@link TestLinks.sign} takes. Options of other names are refused. */
export interface TestLinkOptions<Further extends string = never> {
  readonly action: Exclude<ShippedAction, "notice"> | Further;
  /** v1 has the actions `activate` and `recover` alone. @default "v2" */
  readonly format?: TestFormat | undefined;
  /** @default "valid" */
  readonly state?: TestState | undefined;
  /** The digits of the mail. @default random ones, for an action that has a code */
  readonly code?: string | undefined;
  /**
   * Whether the link is for one browser: for a new one, or for the one whose cookie has this value,
   * 43 characters. v1 has no such links.
   *
   * @default false
   */
  readonly bound?: boolean | string | undefined;
  /** When it ends, in seconds since the Unix epoch. @default in an hour */
  readonly expiresAt?: number | undefined;
  /** For the state `used`: the store of a guard, which remembers the link from then on. */
  readonly store?: Pick<TokenStore, "consume"> | undefined;
}

/** A link that was signed, with what else the database and the mail have of it. */
export interface TestLink<Name extends string = string> {
  readonly token: string;
  readonly action: Name;
  readonly format: TestFormat;
  readonly state: TestState;
  /** In seconds since the Unix epoch. */
  readonly expiresAt: number;
  /** What the mail says beside the link; `undefined` for an action without a code. */
  readonly code: string | undefined;
  /** 32 bytes. */
  readonly secret: Bytes;
  /** 16 bytes. */
  readonly consumedId: Bytes;
  /** Of a link for one browser, the value of its cookie. */
  readonly nonce: string | undefined;
  /** Of a link for one browser, the digits that it shows. */
  readonly browserCode: string | undefined;
  /** The link, on a site such as `http://localhost:3000`. */
  url(site: string): string;
}

/** Stands for the collector, which signs, and for the database. Its methods need no `this`. */
export interface TestLinks<Further extends string = never> {
  /** The shared key, for `keys` of a verifier and for `MAILROOM_SECRET_KEY`. */
  readonly sharedKey: string;
  /** The public key, for `keys` of a verifier of v3. */
  readonly publicKey: string;
  /**
   * Signs a link.
   *
   * @throws InvalidArgumentError when there is no such link
   * @throws PlatformUnavailableError
   * @example
   * const links = await createTestLinks();
   * const { token } = await links.sign({ action: "activate", state: "expired" });
   */
  sign<Name extends Exclude<ShippedAction, "notice"> | Further>(
    wanted: TestLinkOptions<Further> & { readonly action: Name },
  ): Promise<TestLink<Name>>;
  /** Uses a link once, as the `redeem` of a handler, and answers what the database would. */
  readonly redeem: TestRedeem;
}

/** The `redeem` of a handler, which says of itself that it counts attempts. */
export interface TestRedeem {
  (link: TestRedeeming): TestVerdict;
  readonly countsAttempts: true;
}

const OPTIONS = ["action", "format", "state", "code", "bound", "expiresAt", "store"] as const;
const HOUR = 3_600;
/** What guards remember beyond the end of a link. */
const REMEMBERED_AFTER = 1_299;
const NONCE = /^[\w-]{42}[AEIMQUYcgkosw048]$/;

/** @internal What the entry calls `createTestLinks`. */
export async function makeTestLinks(
  actions: TestActions,
  clock: Clock,
): Promise<TestLinks<string>> {
  const keys = await makeKeys();
  const rows = new Rows();
  let forging: Promise<Keys> | undefined;
  const redeem = (link: TestRedeeming): TestVerdict => rows.redeem(readRedeeming(link), clock());

  return Object.freeze<TestLinks<string>>({
    sharedKey: [...keys.shared].map((byte) => byte.toString(16).padStart(2, "0")).join(""),
    publicKey: `mrpk_${encode(keys.public)}`,
    async sign<Name extends string>(wanted: unknown): Promise<TestLink<Name>> {
      const now = Math.floor(clock());
      const { name, number, path, state, format, code, nonce, expiresAt, store } = readWanted(
        wanted,
        actions,
        now,
      );
      const secret = randomBytes(32);
      const consumedId = await hash("consumed", secret, 16);
      const binding =
        nonce === undefined ? new Uint8Array(0) : await hash("browser", bytesOf(nonce), 16);
      const browserCode = nonce && randomDigits(5);
      forging ??= state === "forged" ? makeKeys(keys) : undefined;
      const { sign } = (state === "forged" && (await forging)) || keys;
      const signable = { number, path, code, secret, expiresAt, binding };
      const token = encode(await sign[format](signable));
      const tries = { here: 0, elsewhere: 0 };
      const row: Row = { action: name, code, browserCode, expiresAt, isUsed: false, tries };
      row.isUsed = state === "used";
      if (state !== "forged") rows.add(secret, row);
      if (store) await store.consume(consumedId, expiresAt + REMEMBERED_AFTER, randomBytes(16));
      return Object.freeze<TestLink<Name>>({
        ...{ token, action: name as Name, format, state, expiresAt, code, secret, consumedId },
        ...{ nonce, browserCode },
        url: (site) => addressOf(site, path, token),
      });
    },
    redeem: Object.freeze(Object.assign(redeem, { countsAttempts: true as const })),
  });
}

/** Where a link leads, as the collector writes it. */
function addressOf(site: unknown, path: string, token: string): string {
  if (typeof site !== "string" || !/^https?:\/\/[^?#]+$/.test(site)) {
    throw new InvalidArgumentError("a site is an address such as http://localhost:3000");
  }
  // Mail programs leave these signs out at the end of an address.
  const end = /[-_]$/.test(token) ? "&from=mail" : "";
  return `${site.replace(/\/+$/, "")}${path}?token=${token}${end}`;
}

function wrong(name: string, rule: string): InvalidArgumentError {
  return new InvalidArgumentError(`the option ${name} must be ${rule}`);
}

/** The options of a link, once they are read. */
interface Wanted extends Pick<TestLink, "format" | "state" | "code" | "nonce" | "expiresAt"> {
  readonly name: string;
  readonly number: number;
  readonly path: string;
  readonly store: Pick<TokenStore, "consume"> | undefined;
}

function readWanted(given: unknown, actions: TestActions, now: number): Wanted {
  const [name, format = "v2", state = "valid", sentCode, bound, end, store] = readOptions(
    given,
    OPTIONS,
  );
  const action = actions.find(name);
  if (typeof name !== "string" || action?.path === undefined) {
    throw wrong("action", "an action that has links");
  }
  const { number, path, digits } = action;
  if (format !== "v1" && format !== "v2" && format !== "v3") {
    throw wrong("format", '"v1", "v2" or "v3"');
  }
  if (state !== "valid" && state !== "expired" && state !== "used" && state !== "forged") {
    throw wrong("state", '"valid", "expired", "used" or "forged"');
  }
  if (format === "v1" && (number > 2 || bound === true || typeof bound === "string")) {
    throw wrong("format", '"v2" or "v3" for further actions and bound links');
  }
  const code = sentCode ?? (digits > 0 ? randomDigits(digits) : undefined);
  if (
    code !== undefined &&
    !(typeof code === "string" && /^\d+$/.test(code) && code.length === digits)
  )
    throw wrong("code", digits > 0 ? `a text of ${digits} digits` : "left out for this action");
  if (bound !== undefined && typeof bound !== "boolean" && !isNonce(bound)) {
    throw wrong("bound", "true, false or the value of a browser's cookie, 43 characters");
  }
  const nonce = bound === true ? encode(randomBytes(32)) : bound || undefined;
  const usual = state === "expired" ? now - HOUR : now + HOUR;
  const expiresAt = end === undefined ? usual : Math.floor(readTime(end, "the option expiresAt"));
  if (end !== undefined && expiresAt > now === (state === "expired")) {
    throw wrong("expiresAt", "before now for an expired link, and after now for every other one");
  }
  return {
    name,
    number,
    path,
    format,
    state,
    code,
    nonce,
    expiresAt,
    store: readStore(store, state),
  };
}

function isNonce(value: unknown): value is string {
  return typeof value === "string" && NONCE.test(value);
}

function readStore(store: unknown, state: string): TokenStore | undefined {
  if (store === undefined) return undefined;
  let consume: unknown;
  try {
    consume = (store as TokenStore | null)?.consume;
  } catch (cause) {
    throw new InvalidArgumentError("the option store cannot be read", { cause });
  }
  if (typeof consume !== "function" || state !== "used") {
    throw wrong("store", 'a store of used tokens, for the state "used"');
  }
  return { consume: (...given) => Reflect.apply(consume, store, given) };
}

/** What is asked of a link. What a visitor sent may be anything. */
function readRedeeming(link: unknown): TestRedeeming {
  try {
    const { action, secret, code, bindingIsProven, browserCode } = link as TestRedeeming;
    if (isBytes(secret, 32)) return { action, secret, code, bindingIsProven, browserCode };
  } catch (cause) {
    throw new InvalidArgumentError("the link cannot be read", { cause });
  }
  throw wrong("secret", "the 32 bytes of a link");
}

// What a link handler takes, and what its callbacks are given: the types of the options.

import type { GuardedVerifier, GuardOptions } from "../guard/options.js";
import type { Action } from "../token/types.js";
import type { Away, Judgement, PageName, Verdict } from "./judgement.js";
import type { OwnTexts } from "./texts.js";

/**
 * A link that the guard has let through, with what was sent beside it. None of its values is shown
 * by `console.log`.
 */
export interface RedeemableLink<Further extends string = never> {
  readonly action: Action | Further;
  /** The 32 bytes by which the database finds the token's row; a fresh copy each time. */
  readonly secret: Uint8Array;
  /** 16 bytes that may be stored and logged; a fresh copy each time. */
  readonly consumedId: Uint8Array;
  /** In seconds since the Unix epoch; `undefined` in v1, where only the database knows. */
  readonly expiresAt: number | undefined;
  /** What was typed, for the database to judge as well. */
  readonly code: string | undefined;
  /**
   * The digits that the browser shows that asked for the link, as they were typed in another one.
   * Tell the database, which alone knows them, with the code. `undefined` in the browser that
   * asked, and of a link that is not bound.
   */
  readonly browserCode: string | undefined;
  /**
   * Whether this is the browser that asked for the link. Tell the database, which refuses a bound
   * link without this or `browserCode`; `false` for a link that is not bound, too.
   */
  readonly bindingIsProven: boolean;
  /** Whether the code was found to be the right one; if not, the database has to judge it. */
  readonly codeIsProven: boolean;
  /**
   * All fields of the form, those of a page of one's own included. Nothing but the guard's work is
   * proven of them.
   */
  readonly fields: URLSearchParams;
  /** The request, whose body is read. */
  readonly request: Request;
}

/**
 * Says what is not right about a field of the form, such as a password that is too short. The form
 * is shown again with it.
 */
export interface Again {
  /** A text of at most 1,000 characters, for the visitor. */
  readonly again: string;
}

/** What {@link HandlerOptions.check} is given: nothing of the link but what it is for. */
export interface CheckedForm<Further extends string = never> {
  readonly action: Action | Further;
  readonly fields: URLSearchParams;
  readonly request: Request;
}

/**
 * A page of one's own: the whole document, in which `{{form}}`, `{{title}}` and others are
 * replaced, or what makes it.
 */
export type Page<Further extends string = never> =
  | string
  | ((
      judgement: Judgement<Further>,
      form: string,
    ) => string | undefined | PromiseLike<string | undefined>);

/** What {@link HandlerOptions.renewLink} is given: a link that was signed, and may have ended. */
export interface RenewableLink<Further extends string = never> {
  readonly action: Action | Further;
  /** The 32 bytes by which the database finds the token's row. */
  readonly secret: Uint8Array;
}

/** Pages by name. */
export type OwnPages<Further extends string = never> = {
  readonly [Name in PageName]?: Page<Further> | undefined;
};

/** What {@link HandlerOptions.site} takes: addresses are paths of this site, or of https. */
export interface SiteOptions<Further extends string = never> {
  readonly name?: string | undefined;
  /** The address of an image, beside the name. It is shown 32 px high. */
  readonly logo?: string | undefined;
  /**
   * A colour such as `#0b57d0`, for buttons and links. Where it could not be read on the pages,
   * light or dark, they have a shade of it that can.
   */
  readonly color?: string | undefined;
  /** Where people sign in. Pages that have come to an end lead there. */
  readonly signIn?: string | undefined;
  /** By action where a new link is asked for. Pages of links that do not work lead there. */
  readonly newLink?: { readonly [Name in Action | Further]?: string | undefined } | undefined;
}

/** What {@link HandlerOptions.password} takes. */
export interface PasswordOptions<Further extends string = never> {
  /** @default ["recover"] */
  readonly actions?: readonly (Action | Further)[] | undefined;
  /**
   * In code points, from 8, which is enough beside a second factor.
   *
   * @default 15
   */
  readonly minLength?: number | undefined;
  /**
   * In code points, from 64 to 1024.
   *
   * @default 256
   */
  readonly maxLength?: number | undefined;
}

/**
 * What {@link createLinkHandler} takes: what a guard takes, and what the pages need. Options of
 * other names are refused.
 */
export interface HandlerOptions<Further extends string = never>
  extends Omit<GuardOptions<Further>, "verifier"> {
  /**
   * Judges the links; or several do, each those that it has keys for: one of `mailroom-verifier`
   * for v1 and v2, one of `mailroom-verifier/public` for v3.
   */
  readonly verifier: GuardedVerifier<Further> | readonly GuardedVerifier<Further>[];
  /**
   * Uses the link in the database, which decides, and answers its verdict; or a `Response`, such as
   * a redirect with a cookie, once it was used. After `wrong_code`, `too_many_attempts`,
   * `not_eligible`, `unknown`, `away`, `{ again }` and a `Response` of 400 or above the link works
   * again, as after an exception: the visitor reads that it is not known whether it worked, and the
   * next press tells. `{ again: "Choose a longer password." }` shows the form with that text, and
   * takes the attempt at a code back, up to twenty times a link: it must not depend on the code.
   * `{ away: error }` is `away`, and `onError` gets the error.
   */
  readonly redeem: (
    link: RedeemableLink<NoInfer<Further>>,
  ) => Verdict | Again | Away | Response | PromiseLike<Verdict | Again | Away | Response>;
  /**
   * Checks the fields of a form of one's own before the code is compared and `redeem` is called.
   * `{ again: "…" }` shows the form with that text; nothing is used or counted.
   *
   * @example
   * check: ({ fields }) =>
   *   (fields.get("password") ?? "").length < 10
   *     ? { again: "Choose a longer password." }
   *     : undefined
   */
  readonly check?:
    | ((form: CheckedForm<NoInfer<Further>>) => Again | undefined | PromiseLike<Again | undefined>)
    | undefined;
  /**
   * Has the pages of these actions ask for a new password, in a field of that name (NIST SP
   * 800-63B-4). One that is too short or too long shows the form again, before a code is looked at;
   * nothing is used or counted. `redeem` finds it in `fields`, in the normal form NFC, and nothing
   * else gets it. Where people sign in, `normalize("NFC")` what they type, too.
   *
   * @example
   * password: { actions: ["recover"], minLength: 15, maxLength: 256 }
   */
  readonly password?: PasswordOptions<NoInfer<Further>> | undefined;
  /**
   * Whether `redeem` counts the codes that are tried, as `mailroom.redeem` does. Recoveries of v1
   * need that: nothing but the database can judge them. A property `countsAttempts` of `redeem`
   * says the same.
   *
   * @default false
   */
  readonly countsAttempts?: boolean | undefined;
  /**
   * What the links are for.
   *
   * @default the last part of the address: `/activate` or `/recover`
   */
  readonly action?: Action | NoInfer<Further> | undefined;
  /**
   * Takes links whose token is behind `#`, such as `/activate#token`, where no log and no other
   * site gets it. They need script. With these keys, `mrpk_…`, the page checks the signature of v3
   * before it sends the token in the body of a form. A function is called for each such page.
   */
  readonly publicKeys?:
    | string
    | readonly string[]
    | (() => string | readonly string[] | undefined)
    | undefined;
  /**
   * The site that the pages belong to: its name and logo are on each, its colour on buttons and
   * links, and pages that have come to an end lead on.
   *
   * @example
   * site: { name: "Compilers", logo: "/logo.svg", color: "#0b57d0", signIn: "/login",
   *   newLink: { recover: "/forgot" } }
   */
  readonly site?: SiteOptions<NoInfer<Further>> | undefined;
  /**
   * Asks for a new link in place of one of v2 or v3 that has expired, was used or is locked, whose
   * page gets a button for it; `mailroom.renewLink` does. Nobody types or sees an address. What it
   * returns is not looked at: the page says that a new link is on its way if it can be sent.
   *
   * @example
   * renewLink: mailroom.renewLink
   */
  readonly renewLink?: ((link: RenewableLink<NoInfer<Further>>) => unknown) | undefined;
  /**
   * Pages of one's own, by name, and by action those that differ there; `undefined`, also returned,
   * means the page that is built in.
   *
   * @example
   * pages: { done, recover: { form: ({ title }, form) => layout(title, form), done: undefined } }
   */
  readonly pages?:
    | (OwnPages<NoInfer<Further>> & {
        readonly [Name in Action | NoInfer<Further>]?: OwnPages<NoInfer<Further>> | undefined;
      })
    | undefined;
  /**
   * The language of a request, such as that of the visitor's account, before those that the browser
   * prefers. A tag such as `de` or `pt-BR`; `undefined` leaves it to the browser, as do languages
   * that have no texts.
   *
   * @example
   * language: (request) => new URL(request.url).searchParams.get("lang") ?? undefined
   */
  readonly language?: ((request: Request) => string | undefined) | undefined;
  /** Texts of one's own by language, such as `{ de: { close: "Fertig." } }`. */
  readonly texts?: { readonly [language: string]: OwnTexts } | undefined;
  /** What pages of one's own may load, by directive, such as `{ "style-src": "'self'" }`. */
  readonly policy?: { readonly [Name in Directive]?: string | undefined } | undefined;
  /**
   * Further origins whose pages may send the form, for proxies that change the name of the host.
   */
  readonly origins?: readonly string[] | undefined;
  /**
   * Gets what went wrong here: what `redeem` or a page of one's own threw, refusals whose kind is
   * `operator`, and, once each, what only the operator can mend: a key that is missing, forms that
   * are refused behind a proxy. Nobody waits for a promise that it returns, and what it throws is
   * nobody's error.
   *
   * @default `console.error` gets the message of an error of this package; of others the name, the
   * place and the message without what may be a secret
   */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** The directives that can be extended. */
export type Directive =
  | "connect-src"
  | "font-src"
  | "form-action"
  | "img-src"
  | "media-src"
  | "script-src"
  | "style-src";

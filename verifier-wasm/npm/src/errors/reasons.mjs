// Why a link or a call is refused: the one list of reasons.
//
// `npm run build` makes of it the classes of errors, the meanings of the module's numbers, the
// texts of `explain` and what the handler answers (`generated` in this folder and in that of the
// handler); `npm run reasons` writes errors.md. `verifier-wasm/src/status.rs` gives the numbers,
// and a test compares them.
//
// - `reason`: the stable word. The class is called after it.
// - `kind`: whose fault it is. All of `VerificationError` is the visitor's.
// - `means`: the documentation of the class.
// - `help`: what errors.md says, its first sentence about what happened, the next about what to do.
// - `causes`: of a reason that people really meet, what errors.md lists: where it comes from, and
//   what helps. It is in no bundle.
// - `outcome`: what the handler answers a visitor, one of `src/handler/outcomes.ts`.
// - `statuses`: the numbers of the module that mean it, each with the sentence that the command and
//   `explain` say; those with a `sentenceName` are given by TypeScript alone. The message of an
//   error is its reason in words, since every bundle loads it, or the `message` here. `name` and
//   `sentenceName` are constants of number and message, for the code that asks for them.

/** The token, or the code typed beside it, was refused. The kind is `visitor`. */
export const VERIFICATION = [
  {
    reason: "ERR_TOKEN_MALFORMED",
    means:
      "The string is no token: another length, a character outside base64url, padding, or " +
      "another spelling of a token.",
    help: "this is no token; the mail program may have cut the link. Ask to copy the whole link.",
    causes: [
      "The mail program cut the link, or put signs into it. The handler mends most of these; " +
        "the verifier mends nothing and takes one spelling of a token.",
      "Your program passes more than the token, such as a blank, a line break or `token=` in " +
        "front of it.",
      "The verifier is older than the format that the collector signs, or than links for one " +
        "browser. Update every verifier before a collector signs another format.",
      "The action is one of your own, and the verifier was not told of it, or of another " +
        "number or other digits. Give `defineActions` what the row of `mailroom.actions` has, " +
        "and what it returns to the option `actions`; `FURTHER_ACTIONS` of " +
        "`mailroom-verifier/database` are those that the database comes with.",
      "To see which rule a token breaks, run `npx mailroom-verifier TOKEN --action " +
        "activate`: it says how many characters the token has, and how many a token may have.",
    ],
    outcome: "INVALID",
    statuses: [
      {
        number: 1,
        sentence: "a token is a string of 86, 104, 124, 126, 146, 147 or 168 characters",
      },
      { number: 2, sentence: "the token is not canonical base64url" },
      { number: 7, sentence: "a token of this length is of another version" },
      { number: 8, sentence: "the verifier knows no such action of a token of this length" },
      { number: 9, sentence: "the token's expiry is after the year 9999" },
    ],
  },
  {
    reason: "ERR_TOKEN_SIGNATURE",
    means:
      "No key of the ring signed this token for this action and code: forged, altered, signed by " +
      "a dropped key, and in v1 also a link of another action or a wrong code.",
    help:
      "forged or altered, or signed by another key. Offer a new link; if all links fail, compare " +
      "the keys. If the message is `token signature: key id`, give the verifier the key that the " +
      "token names.",
    causes: [
      "All links fail: the verifier has another key than the collector, such as that of " +
        "another environment. Take one link and run `mailroom verify --key-file mailroom.key " +
        "--action activate -`; if it is genuine there, the site has the wrong key.",
      "Old links fail: their key was removed before the last of them had expired. Put it " +
        "back as the second of the list `keys`.",
      "New links fail: the collector signs with a new key. Give it to every verifier first.",
      "The message is `token signature: v3`, or `token signature: v1 or v2`: the entry is " +
        "that of the other kind of key. A handler on one route takes a list of both verifiers.",
      "The link is of v1: there a link for another action and a wrong code have this reason, " +
        "too.",
      "Single links fail: somebody altered or made them. Nothing is to be done.",
    ],
    outcome: "INVALID",
    statuses: [
      {
        number: 3,
        name: "SIGNATURE",
        sentence: "no key of this ring signed this token for this action and code",
      },
      {
        number: 15,
        name: "OF_PUBLIC_KEY",
        sentenceName: "FOR_PUBLIC_KEY",
        message: "token signature: v3",
        sentence: "a v3 token is for mailroom-verifier/public",
      },
      {
        number: 16,
        name: "OF_SHARED_KEY",
        sentenceName: "FOR_SHARED_KEY",
        message: "token signature: v1 or v2",
        sentence: "a token of v1 or v2 is for mailroom-verifier, and its shared keys",
      },
      {
        number: 17,
        name: "UNKNOWN_KEY",
        sentenceName: "KEY_UNKNOWN",
        message: "token signature: key id",
        sentence: "no key of this ring has the id that the token names",
      },
    ],
  },
  {
    reason: "ERR_TOKEN_ACTION",
    means: "A genuine link of v2 or v3, for another action.",
    help: "a genuine link for another action. Check the route of the link.",
    outcome: "INVALID",
    statuses: [{ number: 10, name: "ACTION", sentence: "the token is for another action" }],
  },
  {
    reason: "ERR_TOKEN_EXPIRED",
    means:
      "A genuine link that is not valid any more; or, thrown by a store, one that would have to " +
      "be remembered until a time that is over, so that an earlier use may be forgotten.",
    help: "genuine, but expired. Offer a new link.",
    causes: [
      "The link lived its time: 15 minutes for `activate`, `recover` and `sign_in`, an hour " +
        "for `change_email`, 7 days for `invite`, unless you have changed that. Let the action " +
        "live longer: `UPDATE mailroom.actions SET lifetime = '1 day' WHERE name = " +
        "'activate'`. Links that were made before keep their time.",
      "The mail came late. A link's time begins when the token is made, so an outage of the " +
        "mail server takes some of it.",
      "The clock of the verifier is ahead. Set it, or give `clockTolerance` in seconds; " +
        "`clock` returns seconds, not milliseconds.",
      "With the handler's option `renewLink` the visitor's page has a button that sends a " +
        "new link.",
    ],
    outcome: "EXPIRED",
    statuses: [{ number: 11, name: "EXPIRED", sentence: "the token has expired" }],
  },
  {
    reason: "ERR_TOKEN_OTHER_BROWSER",
    means:
      "A genuine link that is bound to another browser than the visitor's: there the visitor has " +
      "to type the digits that the other one shows.",
    help:
      "genuine, but [for another browser](REFERENCE.md#links-for-one-browser). " +
      "Ask for the digits that the other one shows.",
    outcome: "INVALID",
    statuses: [{ number: 14, name: "OTHER_BROWSER", sentence: "the link is for another browser" }],
  },
  {
    reason: "ERR_CODE_UNCHECKABLE",
    means: "A code was given, but no code is signed: the action has none, or the format is v3.",
    help: "a code was given where none was signed. Leave out the code.",
    outcome: "INVALID",
    statuses: [
      {
        number: 4,
        name: "CODE_UNCHECKABLE",
        sentence: "no code is signed for this token: leave it out",
      },
    ],
  },
  {
    reason: "ERR_CODE_REQUIRED",
    means: "A recovery came without its code.",
    help: "the link needs its code, as that of a recovery does. Ask for the code.",
    outcome: "MISSING_CODE",
    statuses: [
      {
        number: 5,
        name: "CODE_REQUIRED",
        sentence: "this action needs its code, which guard.redeem compares",
      },
    ],
  },
  {
    reason: "ERR_CODE_MALFORMED",
    means:
      "The code does not consist of as many digits from 0 to 9 as its action says: five for a " +
      "recovery.",
    help: "the code is not the digits of its action, five for a recovery. Ask again.",
    outcome: "MISSING_CODE",
    statuses: [
      {
        number: 6,
        name: "CODE_MALFORMED",
        sentence: "a code is a string of digits from 0 to 9, as many as its action has",
      },
    ],
  },
  {
    reason: "ERR_CODE_MISMATCH",
    means: "The link is genuine and valid, the code is not the one that belongs to it.",
    help: "a genuine link with the wrong code. Ask again.",
    outcome: "WRONG_CODE",
    statuses: [{ number: 12, name: "CODE_MISMATCH", sentence: "the code is not this link's" }],
  },
  {
    reason: "ERR_LINK_UNCHECKABLE",
    means:
      "A v1 token cannot be judged as a link: it carries no expiry, and a recovery is signed " +
      "together with its code.",
    help:
      "`verifyLink` cannot check v1. Call `tryVerify` for an activation; let the database redeem " +
      "a recovery.",
    outcome: "INVALID",
    statuses: [
      {
        number: 13,
        name: "LINK_UNCHECKABLE",
        sentence: "a v1 token is judged only together with its code",
      },
    ],
  },
];

/** The guard does not let a token through, although the token itself may be good. */
export const REDEMPTION = [
  {
    reason: "ERR_TOKEN_USED",
    kind: "visitor",
    means: "The token was used before.",
    help: "the link was used before. Offer to sign in, or a new link.",
    causes: [
      "The visitor pressed the button twice, or opened an old mail. This is normal: offer to " +
        "sign in.",
      "Many links are used before their visitors press: a mail scanner presses buttons. " +
        "[Bind links to the browser](REFERENCE.md#links-that-scanners-cannot-use) that asked " +
        "for them.",
      "Your page redeems when the link is opened. Verify on GET, and redeem on POST.",
      "The callback of the guard returned although nothing had changed. Throw where the " +
        "origin was not reached, and on `wrong_code`, `too_many_attempts` and `not_eligible`: " +
        "that gives the link back.",
      "A copy of the installation, such as a staging system, shares the store, where links " +
        "have the same ids. Give each its own `namespace`.",
    ],
    outcome: "USED",
  },
  {
    reason: "ERR_TOO_MANY_ATTEMPTS",
    kind: "visitor",
    means: "More codes were tried on this link than are allowed. This code was not judged.",
    help: "too many codes were tried. Offer a new link.",
    outcome: "LOCKED",
  },
  {
    reason: "ERR_STORE_FULL",
    kind: "operator",
    means:
      "The store is full of tokens that may still be replayed. A store throws it instead of " +
      "forgetting one of them.",
    help: "the store has no room. Answer 503; make the store larger.",
    outcome: "AWAY",
  },
  {
    reason: "ERR_STORE_UNAVAILABLE",
    kind: "operator",
    means:
      "The store threw, took too long, or gave a wrong answer; `cause` is what it threw. If the " +
      "store could not release the token either, the token may count as used; the message says " +
      "so.",
    help:
      "the store failed or was too slow. Answer 503; log the error's `cause`, of a result " +
      "`errorOf(result).cause`.",
    outcome: "AWAY",
  },
  {
    reason: "ERR_GUARD_UNSUPPORTED",
    kind: "operator",
    means:
      "A kind of token that this guard cannot judge as it was made; the message says what to do.",
    help: "this guard cannot judge such a token. Read the message, it names the option.",
    outcome: "FAILURE",
  },
];

/** What is always thrown, and never returned as a refusal. */
export const THROWN = [
  {
    reason: "ERR_INVALID_ARGUMENT",
    kind: "operator",
    means:
      "A call that the program should not have made: an unknown action, a missing or misspelt " +
      "option. Where reading an argument threw, `cause` is what was thrown.",
    help: "an unknown action, a missing or misspelt option. Mend the call.",
  },
  {
    reason: "ERR_KEY_INVALID",
    kind: "operator",
    means:
      "A key, or the list of keys, cannot be used: another form or kind, none, too many, or the " +
      "function `keys` threw.",
    help:
      "the key is missing or malformed. Set a shared key (64 hexadecimal characters or 32 " +
      "bytes); for `/public` and `/web` a public key (`mrpk_…`).",
    causes: [
      "The variable is not set in this process, or is empty: `export " +
        "MAILROOM_SECRET_KEY=$(cat mailroom.key)` before it starts.",
      "A Worker without `nodejs_compat` has no `process.env`: take the key from `env` of " +
        "`cloudflare:workers`.",
      "There is white space around the key, such as the line break at the end of a file: " +
        "trim it.",
      "The text has several keys. Give `keys` a list, with one key in each place.",
      "The key is of another kind. `mailroom-verifier` takes a shared key; `/public` and the " +
        "`createVerifier` of `/web` take a public one, `mrpk_…`; a private one, `mrsk_…`, is " +
        "for the signer only.",
      "The key is base64: decode it to 32 bytes.",
      "`console.error(explain(error))` of `mailroom-verifier/errors` says which of these it " +
        "is, and never shows the key.",
    ],
  },
  {
    reason: "ERR_SECRET_IN_BROWSER",
    kind: "operator",
    means:
      "A shared key was given in a browser, in a page or a worker, where whoever opens the page " +
      "could forge links with it.",
    help:
      "a shared key in a browser. Use `mailroom-verifier/public` or `/web` there. Pages of " +
      "Electron and NW.js are pages of a browser. A window that jsdom, happy-dom or domino has " +
      "made in Node.js is none.",
  },
  {
    reason: "ERR_WASM_UNAVAILABLE",
    kind: "operator",
    means:
      "The WebAssembly module cannot be started here, or is of another version; `cause` is the " +
      "error of the runtime.",
    help:
      "WebAssembly is forbidden or missing. Let the Content-Security-Policy allow " +
      "`'wasm-unsafe-eval'`, or use `mailroom-verifier/slim`, or `/web`.",
  },
  {
    reason: "ERR_PLATFORM_UNAVAILABLE",
    kind: "operator",
    means:
      "The platform has no WebCrypto here, or no Ed25519 that is as strict as the format; " +
      "`cause` is the error of the runtime where there is one.",
    help:
      "for `/web` the platform has no WebCrypto, which pages have under HTTPS alone, or no " +
      "Ed25519 that is strict. Give the option `fallback`.",
  },
  {
    reason: "ERR_MAIL_MISSING",
    kind: "operator",
    means:
      "In a test no such mail came in time, or the inbox cannot be asked; `cause` is the error " +
      "of the runtime where there is one.",
    help:
      "the test's inbox has no such mail. Look whether `mailroom dev` runs, at this address, and " +
      "whether the application asked for a mail of this action.",
  },
];

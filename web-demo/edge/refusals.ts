// What a person reads when a link is not let through. The handler of the package says what becomes
// of a reason, and with which status; this site has words of its own for that, and more to say of
// some reasons.

import { outcomeOf } from "mailroom-verifier/handler";
import type { Action } from "./actions.ts";
import type { OriginReason } from "./origin.ts";
import type { EdgeReason, Outcome } from "./redeeming.ts";

interface Words {
  readonly title: string;
  readonly text: string;
}

export interface Refusal extends Words {
  readonly status: number;
}

const ANOTHER = "Ask for another link, and use the newest mail.";

/** By the problem of the handler's form, or else by its page. */
const WORDS: Readonly<Record<string, Words>> = {
  invalid: {
    title: "This link is not valid",
    text: `Copy all of it from the mail. ${ANOTHER}`,
  },
  used: {
    title: "This link was already used",
    text:
      "A link works once. If that was you, there is nothing left to do. " +
      "If not, ask for another link.",
  },
  expired: {
    title: "This link has expired",
    text: `Its time is over. ${ANOTHER}`,
  },
  locked: {
    title: "Too many codes were tried",
    text: `After five tries a link is locked: not even the right code opens it then. ${ANOTHER}`,
  },
  wrongCode: {
    title: "That is not the code",
    text:
      "The link is fine, the code is not the one that belongs to it. " +
      "Five tries are counted in all.",
  },
  missingCode: {
    title: "The code is missing",
    text: "Type the five digits of the mail.",
  },
  away: {
    title: "Try again in a moment",
    text: "The edge cannot answer now. Nothing was done, and your link still works.",
  },
  unknown: {
    title: "The application does not answer",
    text:
      "It is not known whether this worked. Try again in a moment: " +
      "if it then says that the link was used, it has worked.",
  },
  failure: {
    title: "This site is not set up for this link",
    text: "Nothing was done with it, and trying again does not help. Tell those who run this site.",
  },
};

/**
 * What the edge says of a reason; of those without it what the handler does is said. Where it says
 * who is at fault, it is no secret here. The compiler refuses a reason that is missing.
 */
const BY_EDGE = {
  ERR_TOKEN_MALFORMED: {
    status: 400,
    title: "This link is not complete",
    text: "Some of it is missing or was changed on the way. Copy all of it from the mail.",
  },
  ERR_TOKEN_SIGNATURE: {
    title: "This link is not genuine",
    text:
      "Nobody who may sign links has signed this one for this page. " +
      "Copy all of it from the mail, or ask for another.",
  },
  ERR_TOKEN_ACTION: {
    title: "This link is for something else",
    text: "It is genuine, but was made for another page. Open it as it stands in the mail.",
  },
  ERR_TOKEN_OTHER_BROWSER: {
    title: "This link is for another browser",
    text: `It works only where it was asked for. Open it there. ${ANOTHER}`,
  },
  ERR_CODE_UNCHECKABLE: {
    status: 400,
    title: "No code belongs here",
    text: "This link is used without a code. Open it from the mail again and press its button.",
  },
  ERR_CODE_MALFORMED: {
    title: "A code is five digits",
    text: "Type the five digits of the mail. This was not counted as a try.",
  },
  ERR_LINK_UNCHECKABLE: {
    status: 400,
    title: "This link cannot be judged here",
    text: `The edge cannot prove links of its kind. Nothing was done with it. ${ANOTHER}`,
  },
  ERR_STORE_FULL: {
    title: "The edge can remember no more links",
    text:
      "It lets no link through that it could not remember. " +
      "Nothing was done, and your link still works: try again in some minutes.",
  },
  ERR_STORE_UNAVAILABLE: {
    title: "The edge cannot look up this link",
    text:
      "Where it remembers used links nothing answers, so the application was not asked. " +
      "Try again in a moment. If it then says that the link was used, ask for another one.",
  },
  ERR_TOKEN_EXPIRED: undefined,
  ERR_TOKEN_USED: undefined,
  ERR_CODE_REQUIRED: undefined,
  ERR_CODE_MISMATCH: undefined,
  ERR_TOO_MANY_ATTEMPTS: undefined,
  ERR_GUARD_UNSUPPORTED: undefined,
} as const satisfies Readonly<
  Record<EdgeReason, (Words & { readonly status?: number }) | undefined>
>;

const NOT_ELIGIBLE: Record<Action, string> = {
  activate:
    "Only an account that waits for its activation can use it. This one is active already, " +
    "or is suspended, of which those who run this site know more. The link stays as it is.",
  recover:
    "Only an active account is recovered. This one was not activated yet, or is suspended, " +
    "of which those who run this site know more. The link stays as it is.",
  invite: "Those who run this site know why. The link stays as it is.",
};

/** What the database says, where it is more than the handler's answer. */
const BY_ORIGIN = {
  unknown: {
    title: "This link belongs to nobody",
    text: `The database knows no such link for this page. ${ANOTHER}`,
  },
  away: {
    title: "The application does not answer",
    text:
      "It or its database is away, and nothing was done. Your link still works: " +
      "try again in a moment.",
  },
  used: undefined,
  expired: undefined,
  too_many_attempts: undefined,
  wrong_code: undefined,
  silent: undefined,
} as const satisfies Readonly<
  Record<Exclude<OriginReason, "ok" | "not_eligible">, Words | undefined>
>;

const COUNTED = {
  no: "The code was not counted as a try.",
  perhaps: "The code may have been counted as a try.",
};

const STUCK =
  "The edge could not note that the link was not used. If it says so at the next try, " +
  "ask for another one.";

/** All that is to be said of an outcome that is not "ok". */
export function refusalOf(outcome: Outcome, action: Action): Refusal {
  const { status, title, text } =
    outcome.by === "edge" ? refusalByEdge(outcome.reason) : refusalByOrigin(outcome.reason, action);
  // Of interest to whoever is to try again.
  const counted =
    status === 503 && outcome.counted !== undefined ? COUNTED[outcome.counted] : undefined;
  const sentences = [text, counted, outcome.stuck ? STUCK : undefined];
  return { status, title, text: sentences.filter((sentence) => sentence !== undefined).join(" ") };
}

export function refusalByEdge(reason: EdgeReason): Refusal {
  return { ...answerTo(reason), ...BY_EDGE[reason] };
}

function refusalByOrigin(reason: OriginReason, action: Action): Refusal {
  if (reason === "ok") throw new TypeError("that is no refusal");
  if (reason === "not_eligible") {
    return {
      status: 409,
      title: "This account cannot use the link now",
      text: NOT_ELIGIBLE[action],
    };
  }
  // Nobody knows whether the link was used, as after a `redeem` of the handler that failed.
  const answer = answerTo(reason === "silent" ? "redeem_failed" : reason);
  return { ...answer, ...BY_ORIGIN[reason] };
}

/** What the handler of the package answers, in the words of this site. */
function answerTo(reason: Parameters<typeof outcomeOf>[0]): Refusal {
  const { page, problem, status } = outcomeOf(reason);
  const words = WORDS[problem ?? page];
  if (words === undefined) throw new TypeError(`there are no words for ${problem ?? page}`);
  return { status, ...words };
}

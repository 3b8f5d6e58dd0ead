// What a person reads when a link is not let through,
// for every reason that the edge and the origin have.

import type { Action } from "./actions.ts";
import type { EdgeReason, OriginReason, Outcome } from "./redeeming.ts";

export interface Refusal {
  readonly status: number;
  readonly title: string;
  readonly text: string;
}

const ANOTHER = "Ask for another link, and use the newest mail.";

const USED = {
  status: 409,
  title: "This link was already used",
  text:
    "A link works once. If that was you, there is nothing left to do. " +
    "If not, ask for another link.",
};
const EXPIRED = {
  status: 410,
  title: "This link has expired",
  text: `Its time is over. ${ANOTHER}`,
};
const WRONG_CODE = {
  status: 422,
  title: "That is not the code",
  text:
    "The link is fine, the code is not the one that belongs to it. " +
    "Five tries are counted in all.",
};
const TOO_MANY = {
  status: 429,
  title: "Too many codes were tried",
  text: `After five tries a link is locked: not even the right code opens it then. ${ANOTHER}`,
};

const BY_EDGE: Record<EdgeReason, Refusal> = {
  ERR_TOKEN_MALFORMED: {
    status: 400,
    title: "This link is not complete",
    text: "Some of it is missing or was changed on the way. Copy all of it from the mail.",
  },
  ERR_TOKEN_SIGNATURE: {
    status: 403,
    title: "This link is not genuine",
    text:
      "Nobody who may sign links has signed this one for this page. " +
      "Copy all of it from the mail, or ask for another.",
  },
  ERR_TOKEN_ACTION: {
    status: 403,
    title: "This link is for something else",
    text: "It is genuine, but was made for another page. Open it as it stands in the mail.",
  },
  ERR_TOKEN_EXPIRED: EXPIRED,
  ERR_TOKEN_OTHER_BROWSER: {
    status: 403,
    title: "This link is for another browser",
    text: `It works only where it was asked for. Open it there. ${ANOTHER}`,
  },
  ERR_CODE_UNCHECKABLE: {
    status: 400,
    title: "No code belongs here",
    text: "This link is used without a code. Open it from the mail again and press its button.",
  },
  ERR_CODE_REQUIRED: {
    status: 422,
    title: "The code is missing",
    text: "Type the five digits of the mail.",
  },
  ERR_CODE_MALFORMED: {
    status: 422,
    title: "A code is five digits",
    text: "Type the five digits of the mail. This was not counted as a try.",
  },
  ERR_CODE_MISMATCH: WRONG_CODE,
  ERR_LINK_UNCHECKABLE: {
    status: 400,
    title: "This link cannot be judged here",
    text: `The edge cannot prove links of its kind. Nothing was done with it. ${ANOTHER}`,
  },
  ERR_TOKEN_USED: USED,
  ERR_TOO_MANY_ATTEMPTS: TOO_MANY,
  ERR_STORE_FULL: {
    status: 503,
    title: "The edge can remember no more links",
    text:
      "It lets no link through that it could not remember. " +
      "Nothing was done, and your link still works: try again in some minutes.",
  },
  ERR_STORE_UNAVAILABLE: {
    status: 503,
    title: "The edge cannot look up this link",
    text:
      "Where it remembers used links nothing answers, so the application was not asked. " +
      "Try again in a moment. If it then says that the link was used, ask for another one.",
  },
  ERR_GUARD_UNSUPPORTED: {
    status: 500,
    title: "This site is not set up for this link",
    text: "Nothing was done with it, and trying again does not help. Tell those who run this site.",
  },
};

const NOT_ELIGIBLE: Record<Action, string> = {
  activate:
    "Only an account that waits for its activation can use it. This one is active already, " +
    "or is suspended, of which those who run this site know more. The link stays as it is.",
  recover:
    "Only an active account is recovered. This one was not activated yet, or is suspended, " +
    "of which those who run this site know more. The link stays as it is.",
  invite: "Those who run this site know why. The link stays as it is.",
};

const BY_ORIGIN: Record<Exclude<OriginReason, "ok" | "not_eligible">, Refusal> = {
  unknown: {
    status: 403,
    title: "This link belongs to nobody",
    text: `The database knows no such link for this page. ${ANOTHER}`,
  },
  used: USED,
  expired: EXPIRED,
  too_many_attempts: TOO_MANY,
  wrong_code: WRONG_CODE,
  away: {
    status: 503,
    title: "The application does not answer",
    text:
      "It or its database is away, and nothing was done. Your link still works: " +
      "try again in a moment.",
  },
  silent: {
    status: 503,
    title: "The application does not answer",
    text:
      "It is not known whether this worked. Try again in a moment: " +
      "if it then says that the link was used, it has worked.",
  },
};

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
    outcome.by === "edge" ? BY_EDGE[outcome.reason] : refusalByOrigin(outcome.reason, action);
  // Of interest to whoever is to try again.
  const counted =
    status === 503 && outcome.counted !== undefined ? COUNTED[outcome.counted] : undefined;
  const sentences = [text, counted, outcome.stuck ? STUCK : undefined];
  return { status, title, text: sentences.filter((sentence) => sentence !== undefined).join(" ") };
}

export function refusalByEdge(reason: EdgeReason): Refusal {
  return BY_EDGE[reason];
}

function refusalByOrigin(reason: OriginReason, action: Action): Refusal {
  if (reason === "ok") throw new TypeError("that is no refusal");
  if (reason !== "not_eligible") return BY_ORIGIN[reason];
  return { status: 409, title: "This account cannot use the link now", text: NOT_ELIGIBLE[action] };
}

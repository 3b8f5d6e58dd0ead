// What a person reads when a link is not let through, for every reason that the edge and the origin have.

import type { RedemptionErrorCode, VerificationErrorCode } from "mailroom-verifier/errors";
import type { Verdict } from "./origin.ts";

export interface Refusal {
  readonly status: number;
  readonly title: string;
  readonly text: string;
}

const ANOTHER = "Ask for another link, and use the newest mail.";
const RETRY = "Your link still works: try again in a moment.";

const USED = {
  status: 409,
  title: "This link was already used",
  text: "A link works once. If that was you, there is nothing left to do. If not, ask for another link.",
};
const EXPIRED = { status: 410, title: "This link has expired", text: `Its time is over. ${ANOTHER}` };
const WRONG_CODE = {
  status: 422,
  title: "That is not the code",
  text: "The link is fine, the code is not the one that belongs to it. Five tries are counted in all.",
};
const TOO_MANY = {
  status: 429,
  title: "Too many codes were tried",
  text: `After five tries a link is locked, and the right code does not open it any more. ${ANOTHER}`,
};
const UNAVAILABLE = { status: 503, title: "This cannot be decided just now", text: RETRY };

const BY_EDGE: Record<VerificationErrorCode | RedemptionErrorCode, Refusal> = {
  ERR_TOKEN_MALFORMED: {
    status: 400,
    title: "This link is not complete",
    text: "Some of it is missing or was changed on the way. Copy all of it from the mail.",
  },
  ERR_TOKEN_SIGNATURE: {
    status: 403,
    title: "This link is not genuine",
    text: `Nobody who may sign links has signed this one. Copy all of it from the mail, or ask for another.`,
  },
  ERR_TOKEN_ACTION: {
    status: 403,
    title: "This link is for something else",
    text: "It is genuine, but was made for another page. Open it as it stands in the mail.",
  },
  ERR_TOKEN_EXPIRED: EXPIRED,
  ERR_CODE_UNCHECKABLE: {
    status: 400,
    title: "No code belongs here",
    text: "This link is used without a code.",
  },
  ERR_CODE_REQUIRED: {
    status: 422,
    title: "The code is missing",
    text: "Type the five digits that were sent to you apart from the mail.",
  },
  ERR_CODE_MALFORMED: {
    status: 422,
    title: "A code is five digits",
    text: "Type the five digits that were sent to you apart from the mail. This was not counted as a try.",
  },
  ERR_CODE_MISMATCH: WRONG_CODE,
  ERR_LINK_UNCHECKABLE: UNAVAILABLE,
  ERR_TOKEN_USED: USED,
  ERR_TOO_MANY_ATTEMPTS: TOO_MANY,
  ERR_STORE_FULL: UNAVAILABLE,
  ERR_STORE_UNAVAILABLE: UNAVAILABLE,
  ERR_GUARD_UNSUPPORTED: UNAVAILABLE,
};

const BY_ORIGIN: Record<Exclude<Verdict, "ok">, Refusal> = {
  unknown: {
    status: 403,
    title: "This link belongs to nobody",
    text: `The database knows no such link. ${ANOTHER}`,
  },
  used: USED,
  expired: EXPIRED,
  not_eligible: {
    status: 409,
    title: "This account cannot use the link now",
    text: "Its status does not allow it. The link stays as it is.",
  },
  too_many_attempts: TOO_MANY,
  wrong_code: WRONG_CODE,
};

export const ORIGIN_AWAY: Refusal = {
  status: 503,
  title: "The application does not answer",
  text: `Your link was checked and is fine, but what it is for could not be done. ${RETRY}`,
};

export function refusalByEdge(reason: VerificationErrorCode | RedemptionErrorCode): Refusal {
  return BY_EDGE[reason];
}

export function refusalByOrigin(reason: Exclude<Verdict, "ok">): Refusal {
  return BY_ORIGIN[reason];
}

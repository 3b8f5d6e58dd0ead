// What a verifier says of links that it has no key for. The handler tells the operator, and not the
// visitor, what that means.

export const FOR_PUBLIC_KEY = "a v3 token is for mailroom-verifier/public";
export const FOR_SHARED_KEY = "a token of v1 or v2 is for mailroom-verifier, and its shared keys";
export const KEY_UNKNOWN = "no key of this ring has the id that the token names";

/** The command was called in the wrong way, so there is no verdict. */
export class UsageError extends Error {}

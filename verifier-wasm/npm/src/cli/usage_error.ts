/** There can be no verdict, and whoever called the command can do something about it. */
export class UsageError extends Error {}

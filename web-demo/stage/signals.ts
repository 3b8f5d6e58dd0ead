// Signals that end a demonstration. Importing this keeps them
// from ending the process by themselves.

/** Aborted by the first signal: everything ends in order. */
export const ending = new AbortController();

/** Aborted by the second signal: nothing is waited for any more. */
export const hurrying = new AbortController();

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => (ending.signal.aborted ? hurrying : ending).abort());
}

// Functions of the caller's whose promise nobody waits for: if that was rejected and nobody had
// asked for it, Node would end the process.

/** What a function returns that has to answer at once, whatever that is. */
export function atOnce(callback: object): unknown {
  const answer: unknown = Reflect.apply(callback as () => unknown, undefined, []);
  try {
    if (answer instanceof Promise) answer.catch(() => undefined);
  } catch {
    // A proxy that cannot be read is no promise.
  }
  return answer;
}

/** Calls a function now, and waits for nothing. `failed`: gets what it throws, also later. */
export function unawaited(call: () => unknown, failed: (error: unknown) => void = () => {}): void {
  (async () => call())().catch(failed);
}

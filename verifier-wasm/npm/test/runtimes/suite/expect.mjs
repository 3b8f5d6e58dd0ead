// The few assertions that the suite needs, in plain JavaScript,
// because no runtime brings the others' modules.

/** Values are compared as `Object.is` does. */
export function same(actual, expected, what) {
  if (!Object.is(actual, expected)) {
    throw new Error(`${what}: ${shown(actual)} instead of ${shown(expected)}`);
  }
}

export function holds(condition, what) {
  if (!condition) {
    throw new Error(what);
  }
}

/**
 * The error that `action` throws, which must be of exactly one of the exported classes
 * and have this reason.
 *
 * @param {string | string[]} reason the one allowed reason, or several
 */
export function refusal({ errors }, reason, what, action) {
  let error;
  try {
    action();
  } catch (thrown) {
    error = thrown;
  }
  holds(error !== undefined, `${what}: not refused, ${shown(reason)} expected`);
  holds(
    Object.values(errors).some((type) => typeof type === "function" && error?.constructor === type),
    `${what}: ${shown(error)} is not of a class of ./errors`,
  );
  holds(error instanceof Error, `${what}: the class ${error.constructor.name} is no Error`);
  holds(
    [reason].flat().includes(error.reason),
    `${what}: ${error.reason} instead of ${shown(reason)}: ${error.message}`,
  );
  return error;
}

/** The same for an action that returns a promise. */
export async function rejection(subject, reason, what, action) {
  let thrown;
  try {
    await action();
  } catch (error) {
    thrown = { error };
  }
  return refusal(subject, reason, what, () => {
    if (thrown) throw thrown.error;
  });
}

function shown(value) {
  try {
    return typeof value === "string" ? JSON.stringify(value.slice(0, 100)) : String(value);
  } catch {
    return `a ${typeof value} that has no string`;
  }
}

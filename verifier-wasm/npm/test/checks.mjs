// Results in the form that the report counts, one for each thing that was looked at.

export class Checks {
  results = [];

  /** Notes whether `actual` is what was expected: a text, a number, or a pattern. */
  same(name, actual, expected) {
    const fits =
      expected instanceof RegExp ? expected.test(String(actual)) : Object.is(actual, expected);
    this.results.push(
      fits ? { name } : { name, error: `${shown(actual)} instead of ${shown(expected)}` },
    );
  }

  /** Notes what went wrong, if anything did. */
  none(name, faults) {
    this.results.push(faults.length === 0 ? { name } : { name, error: faults.join("\n") });
  }
}

function shown(value) {
  return value instanceof RegExp ? String(value) : JSON.stringify(value);
}

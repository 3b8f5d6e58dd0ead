// Results as the report takes them.

/** Runs tests one after the other: pairs of a name and what has to go well. */
export async function outcomes(tests) {
  const results = [];
  for await (const [name, test] of tests) {
    try {
      await test();
      results.push({ name });
    } catch (error) {
      results.push({ name, error: String(error?.stack ?? error) });
    }
  }
  return results;
}

/** The checks of the conformance kit. Only those that are named may be skipped. */
export function ofChecks({ checks }, skipped = []) {
  return checks.map(({ name, verdict, reason }) => {
    const fine = verdict === (skipped.includes(name) ? "skipped" : "passed");
    return { name: `conformance: ${name}`, ...(fine ? {} : { error: `${verdict}: ${reason}` }) };
  });
}

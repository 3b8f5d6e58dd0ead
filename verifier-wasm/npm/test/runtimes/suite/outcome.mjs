/** What came of one test of the suite. */
export async function outcome(name, test) {
  try {
    await test();
    return { name };
  } catch (error) {
    return { name, error: String(error?.stack ?? error) };
  }
}

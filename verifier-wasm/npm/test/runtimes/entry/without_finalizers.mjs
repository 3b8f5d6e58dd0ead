// Import this before everything else: what only newer runtimes have is taken away, as in Workers of
// an older date.

// Node loads its own fetch at the first use, which needs it.
void globalThis.Request;
delete globalThis.FinalizationRegistry;
if ("FinalizationRegistry" in globalThis) {
  throw new Error("FinalizationRegistry cannot be taken away here");
}

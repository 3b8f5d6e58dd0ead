// Import this before everything else: what only newer runtimes have is taken away, as in Workers of an older date.

delete globalThis.FinalizationRegistry;
if ("FinalizationRegistry" in globalThis) {
  throw new Error("FinalizationRegistry cannot be taken away here");
}

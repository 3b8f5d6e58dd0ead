// Import this before everything else: what only newer runtimes have is taken away, as in Workers of an older date.

for (const name of ["FinalizationRegistry", "WeakRef"]) {
  delete globalThis[name];
  if (name in globalThis) {
    throw new Error(`${name} cannot be taken away here`);
  }
}

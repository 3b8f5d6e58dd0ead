// What the applications with a form do with the package.

import { createGuard, createMemoryStore, createVerifier } from "mailroom-verifier";

let made;

/** Made by the first request: whoever only builds the application has no key. */
function parts() {
  if (made === undefined) {
    const verifier = createVerifier({ keys: process.env.SHARED_KEY });
    const store = createMemoryStore({ capacity: 100 });
    made = { verifier, guard: createGuard({ verifier, store }) };
  }
  return made;
}

const activation = { action: "activate" };
export const isGenuine = (token) => parts().verifier.tryVerify(token, activation).ok;
export const redeem = async (token) => (await parts().guard.tryRedeem(token, activation)).ok;

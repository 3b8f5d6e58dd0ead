// What the applications do with the package at the edge: both kinds of keys, and a guard.

import { createGuard, createMemoryStore, createVerifier } from "mailroom-verifier";
import { createVerifier as createPublicVerifier } from "mailroom-verifier/public";

const activation = { action: "activate" };

/** Whether the tokens of an address verify, and what becomes of two redemptions of the first. */
export async function verify({ searchParams }, { SHARED_KEY, PUBLIC_KEY }) {
  const verifier = createVerifier({ keys: SHARED_KEY });
  const publicVerifier = createPublicVerifier({ keys: PUBLIC_KEY });
  const guard = createGuard({ verifier, store: createMemoryStore({ capacity: 100 }) });
  const redeem = async () => (await guard.tryRedeem(searchParams.get("shared"), activation)).ok;
  return {
    shared: verifier.tryVerify(searchParams.get("shared"), activation).ok,
    public: publicVerifier.tryVerify(searchParams.get("public"), activation).ok,
    redeemed: [await redeem(), await redeem()],
  };
}

// The entry for those who load the module themselves; it needs the types of WebAssembly.

import type { Verifier } from "mailroom-verifier";
import { instantiate, type VerifierModule } from "mailroom-verifier/slim";
import module from "mailroom-verifier/verifier.wasm";

const loaded: VerifierModule = instantiate(module);
const verifier: Verifier = loaded.createVerifier({ keys: "" });
instantiate(new WebAssembly.Instance(module)).decodeUnverified("").unverifiedSecret.byteLength;
verifier.verify("", { action: "activate" });
// The language's type of a module has no properties, so that only these can be refused.
// @ts-expect-error a module is required
instantiate();
// @ts-expect-error a file that may not be there
instantiate(undefined as WebAssembly.Module | undefined);

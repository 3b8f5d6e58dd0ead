// The entry for those who load the module themselves; it needs the types of WebAssembly.

import type { Verifier } from "mailroom-verifier";
import { instantiate, type VerifierModule } from "mailroom-verifier/slim";
import module from "mailroom-verifier/verifier.wasm";

const loaded: VerifierModule = instantiate(module);
const verifier: Verifier = loaded.createVerifier({ keys: "" });
instantiate(new WebAssembly.Instance(module)).inspect("").unverifiedSecret.byteLength;
verifier.verify("", { action: "activate" });
// @ts-expect-error bytes are to be compiled first
instantiate(new Uint8Array());

// The platform's WebCrypto.

import { PlatformUnavailableError, VerifierError } from "../errors/errors.js";
import type { Bytes } from "../token/types.js";
import { behind } from "./encoding.js";

/** What it did, or the error that it cannot; errors of this package stay as they are. */
export async function onPlatform<Result>(
  act: (subtle: SubtleCrypto) => Result,
): Promise<Awaited<Result>> {
  try {
    return await act(crypto.subtle);
  } catch (cause) {
    if (cause instanceof VerifierError) throw cause;
    throw new PlatformUnavailableError("WebCrypto fails", { cause });
  }
}

/** The first bytes of the SHA-256 of a label with a zero behind it, and of bytes. */
export async function hash(label: string, bytes: Uint8Array, length: number): Promise<Bytes> {
  const labelled = behind(`mailroom/${label}\0`, bytes);
  const whole = await onPlatform((subtle) => subtle.digest("SHA-256", labelled));
  return new Uint8Array(whole, 0, length).slice();
}

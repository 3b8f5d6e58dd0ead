import { bytesOf } from "../token/binary.js";
import type { Bytes } from "../token/types.js";

const KEY = "nRipffF3IfzOpJcG1DbAY9sWtjQBakNCCowrtiphq5U";
/** R and S; of the second one, R is the same. */
const SIGNATURE =
  "K1k9xoMRvpEBZ9MSj4uRRdNJ5CKxMdpWBi/AQBJVYPA45PLsRl53q0/5lkbkx+EZ1aPPTLanw8ArzZGn1Q6PCw";
const WITH_COFACTOR =
  "K1k9xoMRvpEBZ9MSj4uRRdNJ5CKxMdpWBi/AQBJVYPCEt7KKmo6LIhixMq1x3d7p/dusmBN4wRBaSmwobS8nBw";

/**
 * The verdicts in which platforms differ (Chalkias, Garillot and Nikolaenko, "Taming the many
 * EdDSAs"), as far as this package leaves them to the platform: a key with a part of small order,
 * and each signature with its message and whether it is right.
 *
 * The signature of the key's own bytes has a part of small order, too, and the equation holds
 * without the cofactor. With this S it does not hold for R as a message; with the other one it
 * holds for R, but only once it is multiplied by the cofactor, and not for the key.
 */
export function strictCases(): readonly [key: Bytes, cases: readonly StrictCase[]] {
  const texts = [KEY, SIGNATURE, WITH_COFACTOR];
  const [key, signature, withCofactor] = texts.map((text) => bytesOf(atob(text))) as Three;
  const r = signature.slice(0, 32);
  return [
    key,
    [
      [signature, key, true],
      [signature, r, false],
      [withCofactor, key, false],
      [withCofactor, r, false],
    ],
  ];
}

type StrictCase = readonly [signature: Bytes, message: Bytes, isRight: boolean];
type Three = [Bytes, Bytes, Bytes];

// Hundreds of thousands of verifications leave nothing behind. The heap is judged where the runtime
// tells its size.

import { holds, same } from "./expect.mjs";
import { altered, pair } from "./tokens.mjs";

const VERIFICATIONS = 200_000;
const VERIFIERS = 5_000;
const MEGABYTE = 1 << 20;

export function* endurance(subject) {
  const { createVerifier, vectors, options, memories, heapUsed } = subject;
  const { activation, recovery } = pair(vectors);

  yield [
    `${VERIFICATIONS} verifications leave memory as it was`,
    async () => {
      const verifier = createVerifier({ keys: activation.key, ...options });
      const forged = altered(activation.token);
      const round = (times) => {
        for (let turn = 0; turn < times; turn += 4) {
          verifier.verify(activation.token, { action: "activate" });
          verifier.verifyWithUncountedCode(recovery.token, {
            action: "recover",
            code: recovery.code,
          });
          same(verifier.tryVerify(forged, { action: "activate" }).ok, false, "an altered link");
          same(
            verifier.tryVerify("A".repeat(turn % 200), { action: "activate" }).ok,
            false,
            "a text that is no link",
          );
        }
      };
      await unchanged(
        subject,
        () => round(VERIFICATIONS / 10),
        () => round(VERIFICATIONS),
      );
    },
  ];

  yield [
    `${VERIFIERS} verifiers leave memory as it was`,
    async () => {
      const round = (times) => {
        for (let turn = 0; turn < times; turn += 1) {
          const verifier = createVerifier({ keys: [activation.key, "ab".repeat(32)], ...options });
          verifier.verify(activation.token, { action: "activate" });
        }
      };
      await unchanged(
        subject,
        () => round(VERIFIERS / 10),
        () => round(VERIFIERS),
      );
    },
  ];

  yield [
    "the memory of the module was watched",
    () => {
      holds(memories.length > 0, "no instance was seen");
      holds(heapUsed === undefined || heapUsed() > 0, "the runtime tells no heap size");
    },
  ];
}

async function unchanged({ memories, heapUsed }, warmUp, work) {
  warmUp();
  const before = {
    wasm: memories.map(({ buffer }) => buffer.byteLength),
    heap: await heapUsed?.(),
  };
  work();
  const after = { wasm: memories.map(({ buffer }) => buffer.byteLength), heap: await heapUsed?.() };
  same(after.wasm.join(), before.wasm.join(), "bytes of the module's memory");
  if (heapUsed !== undefined) {
    const grown = (after.heap - before.heap) / MEGABYTE;
    holds(grown < 2, `the heap grew by ${grown.toFixed(1)} MB`);
  }
}

// The edge function alone, as it was built, in workerd: with an origin that does what the test
// says, and Durable Objects that fail when they are told to.

import { join } from "node:path";
import { Checks } from "../../verifier-wasm/npm/test/checks.mjs";
import { storesThatFail, visitorsWhoLeave } from "./edge_giving_back.mjs";
import { callers, linksForSomethingElse } from "./edge_refusals.mjs";
import { settings } from "./edge_settings.mjs";
import { guessesAtOnce, oneRowInAnotherFormat, triesOfAnOutage } from "./edge_tries.mjs";
import { textsOf, withEdge } from "./edge_worker.mjs";
import { RecordingOrigin } from "./origin.mjs";
import { Signer } from "./signer.mjs";

/** One Worker for what needs no other settings. */
export async function edgeAlone({ folder, site, mailroom }) {
  const checks = new Checks();
  const signer = new Signer(mailroom, join(folder, "edge-keys"));
  const origin = await RecordingOrigin.start();
  try {
    await withEdge({ folder, site, origin, texts: textsOf(signer, origin) }, async (edge) => {
      const scene = { checks, signer, origin, edge };
      await triesOfAnOutage(scene);
      await oneRowInAnotherFormat(scene);
      await visitorsWhoLeave(scene);
      await guessesAtOnce(scene);
      await storesThatFail(scene);
      await linksForSomethingElse(scene);
      await callers(scene);
    });
    await settings({ checks, folder, site, signer, origin });
  } finally {
    origin.end();
  }
  return checks.results;
}

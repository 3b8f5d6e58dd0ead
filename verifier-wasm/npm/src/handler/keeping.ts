// The first script of a page: the token leaves the address before all else. The scripts are
// functions of their own, in `in_page`, which the build makes short.

import KEEPING from "./in_page/keeping.page.js";
import RECALLING from "./in_page/recalling.page.js";
import SENDING from "./in_page/sending.page.js";

/** What a page does about its link. */
export type Memory =
  /** Keeps it until its end. */
  | { readonly does: "keep"; readonly token: string }
  /** Shows the one that was kept, if there is one. */
  | { readonly does: "recall" }
  /** Forgets it: it has come to an end. */
  | { readonly does: "forget" }
  | { readonly does: "nothing" };

/** A script in whose calls `kept` is what keeps the link of the page. */
export function keepingScript(calls: string): string {
  return `{const kept=(${KEEPING})();${calls}}`;
}

/** @param hears whether tokens may come behind `#` */
export function scriptOf(memory: Memory, hears: boolean): string {
  return keepingScript(`${callFor(memory)};(${SENDING})();${hears ? "kept.hear();" : ""}`);
}

function callFor(memory: Memory): string {
  // Nothing but the characters of a token gets into a script.
  if (memory.does === "keep" && /^[\w-]+$/.test(memory.token))
    return `kept.keep("${memory.token}")`;
  if (memory.does === "forget") return "kept.forget()";
  return memory.does === "recall" ? `(${RECALLING})(kept)` : "kept.clean(null)";
}

// Options that are wrong: the handler is not made, and which one is wrong is said.

import { same } from "./expect.mjs";
import { scene } from "./handler_scene.mjs";

export function* handlerOptions(subject) {
  yield [
    "what is wrong with the options is said when the handler is made",
    () => {
      const { make } = scene(subject);
      for (const [what, more] of Object.entries({
        "no redeem": { redeem: undefined },
        "no store": { store: undefined },
        "no verifier": { verifier: {} },
        "a misspelt option": { page: {} },
        "a page that is none": { pages: { start: "" } },
        "a page that is a number": { pages: { done: 1 } },
        "a form without form": { pages: { form: "<p>Hello" } },
        "an action that is no name": { action: 1 },
        "texts that are no object": { texts: { de: "Hallo" } },
        "a language that is none": { texts: { "": {} } },
        "a directive that cannot be extended": { policy: { "frame-ancestors": "*" } },
        "a policy of two directives": { policy: { "img-src": "'self'; script-src *" } },
        "an origin with a path": { origins: ["https://a.example/"] },
        "onError that is no function": { onError: "console" },
        "too many attempts": { maxCodeAttempts: 101 },
      })) {
        let reason = "none";
        try {
          make(more);
        } catch (error) {
          reason = error.reason;
        }
        same(reason, "ERR_INVALID_ARGUMENT", what);
      }
    },
  ];
  yield [
    "a list of verifiers that is none is said to be so",
    () => {
      const { make, verifier } = scene(subject);
      for (const wrong of [[], [undefined], [verifier, {}], [[verifier]], [verifier, "x"]]) {
        let reason = "none";
        try {
          make({ verifier: wrong });
        } catch (error) {
          reason = error.reason;
        }
        same(reason, "ERR_INVALID_ARGUMENT", "reason");
      }
    },
  ];
}

// A link that is bound to a browser, the handler that it is opened with, and the browsers that open
// it.

import { scene as sceneOfBrowsers } from "./browsers.mjs";
import { scene } from "./handler_scene.mjs";
import { recordingStore } from "./stores.mjs";

export const BROWSER = "__Host-mailroom-browser";
export const CODE = "31943";

/** A bound link, the handler that it is opened with, and the browsers that open it. */
export function sceneOfBound(subject, action = "activate", version = 2, more = {}) {
  const link = sceneOfBrowsers(subject, action, version);
  const { make, press, open, asked, answers, errors } = scene(subject);
  const handle = make({ verifier: link.verifier, store: recordingStore(), action, ...more });
  // What `mailroom.redeem` does with a bound row.
  const judged = (rightCode) => {
    let used = false;
    answers.judge = ({ bindingIsProven, browserCode, code }) => {
      if (used) return "used";
      if (!bindingIsProven && browserCode !== CODE) return "wrong_code";
      if (rightCode !== undefined && code !== rightCode) return "wrong_code";
      used = true;
      return "ok";
    };
  };
  const cookies = {
    same: `${BROWSER}=${link.nonce}`,
    other: `a=b; ${BROWSER}=${link.other}`,
    none: "a=b",
  };
  const visitor = (number) => `mailroom-visitor=${String(number).padStart(32, "0")}`;
  const openAs = (cookie) => handle(open(link.token, { headers: { Cookie: cookie } }));
  const pressAs = (cookie, browserCode, code) =>
    handle(
      press(
        {
          token: link.token,
          ...(browserCode !== undefined && { browser_code: browserCode }),
          ...(code !== undefined && { code }),
        },
        { headers: { Cookie: cookie } },
      ),
    );
  return { ...link, handle, openAs, pressAs, cookies, visitor, asked, answers, errors, judged };
}

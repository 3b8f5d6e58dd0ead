// The site that a form comes from: by what that is judged, and what the operator is told of a
// genuine link whose form was refused.

import { holds, same } from "./expect.mjs";
import { FORM, SITE, scene } from "./handler_scene.mjs";
import { untouchedStore } from "./stores.mjs";
import { altered } from "./tokens.mjs";

export function* handlerOrigins(subject) {
  const sent = (headers, fields, url = "http://internal:8080/activate") =>
    new Request(url, {
      method: "POST",
      body: new URLSearchParams(fields).toString(),
      headers: { "Content-Type": FORM, ...headers },
    });
  yield [
    "where the browser says from which site a form is, that decides",
    async () => {
      for (const [headers, isTaken, given] of [
        [{ "Sec-Fetch-Site": "same-origin", Origin: "null" }, true],
        [{ "Sec-Fetch-Site": "same-origin", Origin: SITE }, true],
        [{ "Sec-Fetch-Site": "same-origin" }, true],
        [{ "Sec-Fetch-Site": "cross-site", Origin: SITE }, true, [SITE]],
        [{ "Sec-Fetch-Site": "same-site", Origin: SITE }, true, [SITE]],
        [{ "Sec-Fetch-Site": "cross-site", Origin: "http://internal:8080" }, false],
        [{ "Sec-Fetch-Site": "same-site", Origin: "http://internal:8080" }, false],
        [{ "Sec-Fetch-Site": "none", Origin: "http://internal:8080" }, false],
        [{ "Sec-Fetch-Site": "same-origin, cross-site", Origin: "http://internal:8080" }, false],
        [{ "Sec-Fetch-Site": "", Origin: "http://internal:8080" }, false],
        [{ Origin: "http://internal:8080" }, true],
        [{ Origin: "https://internal:8080" }, true],
        [{ Origin: "null" }, false],
      ]) {
        const { make, activation } = scene(subject);
        const { status } = await make({ origins: given })(
          sent(headers, { token: activation.token }),
        );
        same(status, isTaken ? 200 : 403, JSON.stringify(headers));
      }
    },
  ];
  yield [
    "a request that is known to be of https is sent by no page of http",
    async () => {
      const { make, activation } = scene(subject);
      const headers = { Origin: "http://app.example" };
      same(
        (await make()(sent(headers, { token: activation.token }, `${SITE}/activate`))).status,
        403,
        "status",
      );
    },
  ];
  yield [
    "that a genuine link's form was refused is said once, without the origin that came",
    async () => {
      const { make, activation, errors, asked } = scene(subject);
      const handle = make({ store: untouchedStore() });
      const token = activation.token;
      const silent = [
        sent({ "Sec-Fetch-Site": "cross-site", Origin: "https://evil.example" }, { token }),
        sent({ Origin: "https://evil.example" }, { token: altered(token) }),
        sent({ Origin: "https://evil.example" }, {}),
      ];
      for (const request of silent) same((await handle(request)).status, 403, "status");
      same(errors.length, 0, "reports");
      for (const headers of [
        { Origin: "https://evil.example" },
        { "Sec-Fetch-Site": "same-site", Origin: SITE },
        {},
      ]) {
        same((await handle(sent(headers, { token }))).status, 403, "status");
      }
      same(`${errors.length} ${asked.length}`, "1 0", "reports, and calls of redeem");
      holds(
        /internal:8080/.test(errors[0].message) && /option origins/.test(errors[0].message),
        errors[0].message,
      );
      holds(!/evil/.test(errors[0].message), errors[0].message);
    },
  ];
}

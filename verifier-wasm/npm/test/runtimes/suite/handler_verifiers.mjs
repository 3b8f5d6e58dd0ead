// Links that a verifier has the key for, and links that none has: the operator is told those once,
// and no visitor reads that they are not valid.

import { holds, same } from "./expect.mjs";
import { text } from "./formats.mjs";
import { read, scene } from "./handler_scene.mjs";
import { untouchedStore } from "./stores.mjs";
import { altered, bytes, hex, pair, v2Pair, v3Pair } from "./tokens.mjs";

export function* handlerVerifiers(subject) {
  const { createVerifier, createMemoryStore, publicEntry, vectors, vectors2, vectors3, options } =
    subject;
  if (publicEntry === undefined) return;
  const ofThree = (first, more) => {
    const one = pair(vectors).activation;
    const two = v2Pair(vectors2).activation;
    const three = v3Pair(vectors3).activation;
    const clock = () => Math.min(two.now, three.now);
    const shared = createVerifier({ keys: [one.key, two.key], clock, ...options });
    const own = publicEntry.createVerifier({ keys: text(three.publicKey), clock });
    const { make, ...rest } = scene(subject);
    const verifier = { both: [shared, own], turned: [own, shared], shared, own, list: [shared] }[
      first
    ];
    const store = createMemoryStore({ capacity: 100, clock });
    return { ...rest, one, two, three, clock, make, handle: make({ verifier, store, ...more }) };
  };
  yield [
    "links of v1, v2 and v3 work on one route, given verifiers of both kinds of keys",
    async () => {
      for (const order of ["both", "turned"]) {
        const { handle, open, press, one, two, three, asked, errors } = ofThree(order);
        for (const { token, secret } of [one, two, three]) {
          same((await handle(open(token))).status, 200, `${order} open`);
          same((await handle(press({ token }))).status, 200, `${order} press`);
          same((await handle(press({ token }))).status, 409, `${order} again`);
          same(hex(asked.at(-1).secret), secret, `${order} secret`);
          same((await handle(open(altered(token)))).status, 403, `${order} a forged one`);
        }
        same(errors.length, 0, "reports");
      }
    },
  ];
  yield [
    "a link that no verifier has the kind of key for is the operator's error, said once, " +
      "and not called not valid",
    async () => {
      for (const [given, which, cure] of [
        ["shared", ["three"], /v3 came.*mailroom-verifier\/public/],
        ["list", ["three"], /v3 came.*mailroom-verifier\/public/],
        ["own", ["one", "two"], /v1 or v2 came.*mailroom-verifier$/],
      ]) {
        const { handle, open, press, asked, errors, ...links } = ofThree(given);
        for (const name of which) {
          for (const request of [
            open(links[name].token),
            open(links[name].token),
            press({ token: links[name].token }),
          ]) {
            const page = await read(await handle(request));
            same(page.status, 500, `${given} ${name}`);
            holds(!page.text.includes("not valid"), page.text);
          }
        }
        same(`${asked.length} ${errors.length}`, "0 1", `${given}: calls of redeem, and reports`);
        holds(cure.test(errors[0].message), errors[0].message);
      }
    },
  ];
  yield [
    "so is one that names a key that no verifier has, unless it says that it has expired",
    async () => {
      const { make, open, press, two, three, clock, asked, errors } = ofThree("both");
      const strangers = [
        createVerifier({
          keys: [new Uint8Array(32).fill(7), new Uint8Array(32).fill(9)],
          clock,
          ...options,
        }),
        createVerifier({ keys: new Uint8Array(32).fill(7), clock, ...options }),
        publicEntry.createVerifier({ keys: bytes(three.publicKey), clock }),
      ];
      for (const [verifier, token] of [
        [strangers[0], two.token],
        [strangers[1], two.token],
        [[strangers[1], strangers[2]], two.token],
        [[strangers[2], strangers[1]], two.token],
      ]) {
        errors.length = 0;
        const handle = make({ verifier, store: untouchedStore() });
        for (const request of [open(token), press({ token }), open(token)])
          same((await handle(request)).status, 500, "status");
        same(errors.length, 1, "reports");
        holds(/names a key that no verifier has/.test(errors[0].message), errors[0].message);
      }
      errors.length = 0;
      // The expiry of a token that nobody signed: its first six bytes, then the second 1.
      const past = `${two.token.slice(0, 8)}AAAAAAAAAAB${two.token.slice(19)}`;
      const handle = make({ verifier: strangers[1], store: untouchedStore() });
      same(
        `${(await handle(open(past))).status} ${errors.length}`,
        "410 0",
        "one that says that it has expired",
      );
      same(asked.length, 0, "calls of redeem");
    },
  ];
}

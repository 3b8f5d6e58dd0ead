// The worst requests: a clear status, nothing executed, nothing used up.

import { holds, same } from "./expect.mjs";
import { FORM, SITE, read, scene } from "./handler_scene.mjs";
import { untouchedStore } from "./stores.mjs";
import { altered } from "./tokens.mjs";

export function* handlerBadInput(subject) {
  const { createMemoryStore } = subject;

  /** Each is refused with its status, by a page or an empty answer; afterwards the link works. */
  async function refused(cases) {
    const { make, press, activation, asked, clock } = scene(subject);
    const strict = make({ store: untouchedStore() });
    for (const [what, status, request] of cases(activation.token, press)) {
      const answer = await read(await strict(request));
      same(answer.status, status, what);
      holds(
        !answer.text.includes("<script>") && !answer.text.includes(activation.token),
        `${what}: ${answer.text}`,
      );
    }
    same(asked.length, 0, "calls of redeem");
    const handle = make({ store: createMemoryStore({ capacity: 10, clock }) });
    same((await handle(press({ token: activation.token }))).status, 200, "the link afterwards");
  }

  yield [
    "HEAD is answered as GET, without a body",
    async () => {
      const { make, open, activation, asked } = scene(subject);
      const handle = make({ store: untouchedStore() });
      for (const [request, status] of [
        [(method) => open(activation.token, { method }), 200],
        [(method) => open("x", { method }), 403],
        [(method) => new Request(`${SITE}/activate`, { method }), 400],
        [(method) => new Request(`${SITE}/favicon.ico`, { method }), 404],
        [
          (method) =>
            new Request(`${SITE}/activate?script=no&token=${activation.token}`, { method }),
          303,
        ],
      ]) {
        const [shown, head] = [
          await handle(request("GET")),
          await read(await handle(request("HEAD"))),
        ];
        same(`${head.status} ${head.text}`, `${status} `, "status and body");
        same(head.status, shown.status, "the status of GET");
        for (const name of [
          "Content-Type",
          "Content-Language",
          "Cache-Control",
          "Referrer-Policy",
        ]) {
          same(head.headers.get(name), shown.headers.get(name), name);
        }
      }
      same(asked.length, 0, "calls of redeem");
    },
  ];
  yield [
    "other methods are refused",
    async () => {
      const { make, open, press, activation } = scene(subject);
      const handle = make({ store: untouchedStore() });
      for (const method of ["PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND", "post"]) {
        const request =
          method === "post"
            ? press({ token: activation.token }, { method: "PUT" })
            : open(activation.token, { method });
        const { status, headers } = await read(await handle(request));
        same(`${status} ${headers.get("Allow")}`, "405 GET, HEAD, POST", method);
      }
    },
  ];
  yield [
    "what is no form is refused",
    () =>
      refused((token, press) =>
        [
          "application/json",
          "text/plain",
          "multipart/form-data; boundary=x",
          "",
          `${FORM}x`,
          `${FORM}; charset=utf-16`,
          `${FORM}; boundary=x`,
          `text/plain, ${FORM}`,
        ]
          .map((type) => [type, 415, press({ token }, { headers: { "Content-Type": type } })])
          .concat(
            ["gzip", "br", "gzip, identity"].map((coding) => [
              coding,
              415,
              press({ token }, { headers: { "Content-Encoding": coding } }),
            ]),
          ),
      ),
  ];
  yield [
    "a body of a megabyte is refused, whatever it says of its length",
    () =>
      refused((token, press) => {
        const body = `token=${token}&more=${"a".repeat(1_000_000)}`;
        const bytes = new TextEncoder().encode(body);
        const streamed = (chunk) =>
          new ReadableStream({
            start(controller) {
              for (let at = 0; at < bytes.length; at += chunk)
                controller.enqueue(bytes.slice(at, at + chunk));
              controller.close();
            },
          });
        return [
          ["a megabyte", 413, press({}, { body })],
          [
            "a megabyte that says so",
            413,
            press({}, { body, headers: { "Content-Length": "1000000" } }),
          ],
          ["in chunks", 413, press({}, { body: streamed(1000), duplex: "half" })],
          ["in one chunk", 413, press({}, { body: streamed(2_000_000), duplex: "half" })],
        ];
      }),
  ];
  yield [
    "a megabyte is not read to its end",
    async () => {
      const { make, press } = scene(subject);
      let pulled = 0;
      const body = new ReadableStream({
        pull(controller) {
          pulled += 1;
          controller.enqueue(new Uint8Array(1024));
          if (pulled === 10_000) controller.close();
        },
      });
      same((await make()(press({}, { body, duplex: "half" }))).status, 413, "status");
      holds(pulled < 100, `${pulled} chunks were read`);
    },
  ];
  yield [
    "a body that breaks off uses nothing",
    async () => {
      const { make, press, activation, asked } = scene(subject);
      const handle = make();
      const body = new ReadableStream({
        start(controller) {
          controller.enqueue(new TextEncoder().encode(`token=${activation.token}`));
          // Later: what was sent before has arrived.
          setTimeout(() => controller.error(new Error("reset")), 5);
        },
      });
      same((await handle(press({}, { body, duplex: "half" }))).status, 400, "status");
      same(asked.length, 0, "calls of redeem");
      same((await handle(press({ token: activation.token }))).status, 200, "afterwards");
    },
  ];
  yield [
    "a body that somebody has read before is reported",
    async () => {
      const { make, press, activation, errors } = scene(subject);
      const request = press({ token: activation.token });
      await request.text();
      same((await make()(request)).status, 500, "status");
      same(errors.length, 1, "reports");
    },
  ];
  yield [
    "two tokens, two codes and none are refused",
    () =>
      refused((token, press) => {
        const get = (query) => new Request(`${SITE}/activate${query}`);
        const spellings = Array.from({ length: 9 }, (_, at) => `token=${token}${".".repeat(at)}`);
        return [
          ["no token", 400, get("")],
          ["two tokens", 400, get(`?token=${token}&token=${altered(token)}`)],
          ["two tokens, one of them mended", 400, get(`?token=${token}.&token=${altered(token)}`)],
          ["two tokens by two names", 400, get(`?token=${token}&amp;token=${altered(token)}`)],
          ["nine spellings of one token", 400, get(`?${spellings.join("&")}`)],
          ["nine fields of one token", 400, press({}, { body: `token=${token}&`.repeat(9) })],
          ["a thousand fields", 400, press({}, { body: "token=_&".repeat(1_000) })],
          ["an empty token", 403, get("?token=")],
          ["no field", 400, press({})],
          ["two fields", 400, press({}, { body: `token=${token}&token=${altered(token)}` })],
          ["two codes", 400, press({}, { body: `token=${token}&code=1&code=2` })],
          [
            "two codes of a browser",
            400,
            press({}, { body: `token=${token}&browser_code=1&browser_code=2` }),
          ],
          ["a list", 400, press({}, { body: `token[]=${token}` })],
          [
            "one here, one there",
            400,
            press({ token }, { path: `/activate?token=${altered(token)}` }),
          ],
          [
            "one in the address of a POST",
            415,
            new Request(`${SITE}/activate?token=${token}`, {
              method: "POST",
              headers: { Origin: SITE },
            }),
          ],
        ];
      }),
  ];
  yield [
    "wrong encodings and hostile texts are refused",
    () =>
      refused((token, press) => [
        [
          "bytes that are no UTF-8",
          400,
          press({}, { body: new Uint8Array([0x74, 0x3d, 0xff, 0xfe]) }),
        ],
        ["a UTF-16 form", 400, press({}, { body: new Uint8Array([0xfe, 0xff, 0, 0x74]) })],
        ["a token that is cut", 403, press({ token: token.slice(0, -1) })],
        ["a token with more before it", 403, press({ token: `AAA${token}` })],
        ["markup", 403, press({ token: `"><script>alert(1)</script>` })],
        [
          "markup in an address",
          403,
          new Request(`${SITE}/activate?token=%22%3E%3Cscript%3Ealert(1)%3C/script%3E`),
        ],
        [
          "markup beside a token",
          403,
          new Request(`${SITE}/activate?token=x&%22%3E%3Cscript%3E=1`),
        ],
        ["a token of 10,000 characters", 403, press({ token: "A".repeat(10_000) })],
        [
          "an address of a megabyte",
          403,
          new Request(`${SITE}/activate?token=${"A".repeat(1_000_000)}`),
        ],
      ]),
  ];
  yield [
    "what stands beside a genuine token in the address is escaped",
    async () => {
      const { make, activation } = scene(subject);
      const query = new URLSearchParams({ token: activation.token, '"><script>': "'\"&<b>" });
      const { status, text } = await read(await make()(new Request(`${SITE}/activate?${query}`)));
      same(status, 200, "status");
      holds(!/<script>|<b>/.test(text), text);
    },
  ];
  yield [
    "whatever the path is, a redirect and a form lead to a path of this site, without a token",
    async () => {
      const { make, activation } = scene(subject);
      const { token } = activation;
      const handle = make({ action: "activate", store: untouchedStore() });
      const names = [
        "http:evil.example",
        "https:evil.example",
        "https://evil.example",
        "//evil.example",
        "///evil.example",
        "\\evil.example",
        "\\\\evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "data:text/html,x",
        "mailto:a@evil.example",
        "%2f%2fevil.example",
        "%2Fevil.example",
        "%5C%5Cevil.example",
        "%09//evil.example",
        "%0A//evil.example",
        "\t//evil.example",
        "%00http:evil.example",
        "\u0001http:evil.example",
        "..",
        ".",
        "%2e%2e",
        "",
        "a:b",
        "@evil.example",
        "0;url=http:evil.example",
      ];
      const ends = [
        `;token=${token}`,
        `%3Ftoken=${token}`,
        `%253Ftoken%253D${token}`,
        `&token=${token}`,
      ];
      for (const before of ["/", "/a/", "//"]) {
        for (const name of names) {
          for (const end of [...ends, `?token=${token}`, `%2F%2Fevil.example?token=${token}`]) {
            const path = before + name + end;
            // As it stands in a request; `new URL(path, SITE)` would take the name of a site.
            const address = SITE + path;
            const within = (text, what, base = address) => {
              const target = text.replaceAll("&#38;", "&").replaceAll("&#39;", "'");
              // Browsers leave tabs and line breaks out, and take a backslash for a slash.
              const { origin, href } = new URL(target, base);
              holds(/^(\.\/|\?)/.test(target) && origin === SITE, `${what} of ${path}: ${target}`);
              return href;
            };
            const page = await read(await handle(new Request(address)));
            same(page.status, 200, path);
            const [, action] = /<form method="post" action="([^"]*)"/.exec(page.text);
            holds(!within(action, "form").includes(token), `${path}: ${action}`);
            const [, refresh] = /content="0;url=([^"]*)"/.exec(page.text);
            const next = within(refresh, "refresh");
            for (const [asked, answer] of [
              [next, await handle(new Request(next))],
              [address, await handle.judge(new Request(address))],
            ]) {
              same(answer.status, 303, path);
              const there = within(answer.headers.get("Location"), "redirect", asked);
              holds(!there.includes(token), `${path}: ${there}`);
            }
          }
        }
      }
    },
  ];
  yield [
    "a form of another site, or of none that is said, is refused",
    () =>
      refused((token, press) =>
        [
          "https://evil.example",
          "https://app.example.evil.example",
          "https://app.example:8443",
          "null",
          "",
          "app.example",
          "file://app.example",
          "https://app.example@evil.example",
        ]
          .map((origin) => [origin, 403, press({ token }, { headers: { Origin: origin } })])
          .concat([
            ["none", 403, without(press({ token }), "Origin")],
            [
              "the port of another scheme",
              403,
              new Request("http://10.0.0.1/activate", {
                method: "POST",
                body: `token=${token}`,
                headers: { Origin: SITE, Host: "app.example:80", "Content-Type": FORM },
              }),
            ],
            [
              "another site by another header",
              403,
              without(press({ token }, { headers: { "Sec-Fetch-Site": "same-site" } }), "Origin"),
            ],
          ]),
      ),
  ];
  yield [
    "a form of this site is taken, also behind a proxy that ends TLS or changes the host",
    async () => {
      for (const [what, url, headers, origins] of [
        ["the same", SITE, { Origin: SITE }],
        ["TLS that ended before", "http://app.example", { Origin: SITE }],
        ["no origin, but a statement", SITE, { "Sec-Fetch-Site": "same-origin" }],
        [
          "another name in the address",
          "http://localhost:3000",
          { Origin: SITE, Host: "App.example" },
        ],
        ["the port of https", "http://10.0.0.1", { Origin: SITE, Host: "app.example:443" }],
        ["the port of https in the address", "http://app.example:443", { Origin: SITE }],
        [
          "the port of http",
          "http://10.0.0.1:8080",
          { Origin: "http://app.example", Host: "app.example:80" },
        ],
        ["another host that is known", "http://10.0.0.1:8080", { Origin: SITE }, [SITE]],
      ]) {
        const { make, activation } = scene(subject);
        const body = `token=${activation.token}`;
        const request = new Request(`${url}/activate`, {
          method: "POST",
          body,
          headers: { "Content-Type": FORM, ...headers },
        });
        same((await make({ origins })(request)).status, 200, what);
      }
    },
  ];
  yield [
    "headers of any length and kind change nothing",
    async () => {
      const { make, open, activation } = scene(subject);
      const handle = make();
      for (const headers of [
        { Cookie: "a=".repeat(500_000) },
        { Cookie: ";".repeat(100_000) },
        { "Accept-Language": "de,".repeat(300_000) },
        { "Accept-Language": `;q=${"1".repeat(10_000)}` },
        { "Sec-Fetch-Site": "x".repeat(100_000) },
        Object.fromEntries(Array.from({ length: 1000 }, (_, at) => [`x-${at}`, "y".repeat(100)])),
      ]) {
        same(
          (await handle(open(activation.token, { headers }))).status,
          200,
          Object.keys(headers)[0],
        );
      }
    },
  ];
  yield [
    "whatever is no Request is called so",
    async () => {
      const { make } = scene(subject);
      for (const wrong of [
        undefined,
        null,
        {},
        "x",
        { url: "/activate", method: "GET", headers: {} },
      ]) {
        let reason = "none";
        await make()(wrong).catch((error) => (reason = error.reason));
        same(reason, "ERR_INVALID_ARGUMENT", String(wrong));
      }
    },
  ];
}

function without(request, name) {
  const headers = new Headers(request.headers);
  headers.delete(name);
  return new Request(request, { headers });
}

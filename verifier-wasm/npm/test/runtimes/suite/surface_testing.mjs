// The recipes of `./testing`; see surface_recipes.mjs. Its inbox asks a function of the test's.

import { anything, EITHER, functions, optional, when, WORKS } from "./surface_recipes.mjs";

const ACTIVATE = { action: "activate" };
const isObject = (value) => typeof value === "object" && value !== null;
const isText = (value) => typeof value === "string";
const mail = {
  id: 7,
  to: "ada@example.test",
  subject: "",
  text: "",
  html: "",
  link: "https:",
  code: "",
};
const fetching = async () => ({ ok: true, json: async () => [mail] });
// Short: no mail is waited for.
const never = () => ({ timeout: 0 });

/** What only a promise gives, which is made before anything hostile is. */
export async function samplesOfTesting(subject) {
  const { createTestLinks, inbox } = subject.entries["./testing"];
  const links = await createTestLinks();
  const box = inbox("http://127.0.0.1:8025", { fetch: fetching });
  return {
    TestLinks: links,
    TestLink: await links.sign({ ...ACTIVATE, bound: true }),
    Inbox: box,
    InboxMail: await box.mail("ada@example.test", "activate"),
  };
}

export function fixtureOfTesting(subject) {
  const { samplesOfTesting: samples } = subject;
  const { TestLinks: links, TestLink: link } = samples;
  const clock = () => 1_000_000;
  const isTime = when((value) => typeof value === "number", EITHER);
  const actions = () =>
    subject.entries["./actions"].defineActions({
      two_letters: { number: 9, path: "/a/b", digits: 8 },
    });
  const inherits = when((_, what) => what === "options by inheritance", EITHER);
  const ofWait = {
    action: optional(when(isText, EITHER)),
    options: anything,
    "options.after": optional(),
    "options.after.id": when(isText, EITHER),
    "options.timeout": optional(isTime),
  };
  const asked = () => ["ada@example.test", "activate", { after: { id: "6" }, ...never() }];
  return {
    text: link.token,
    reenter: () => links.redeem(link),
    samples,
    recipes: {
      ".createTestLinks": [
        {
          args: () => [{ actions: actions(), clock }],
          places: {
            options: anything,
            "options.actions": optional(when(isObject, EITHER)),
            "options.clock": optional(functions),
            "options.clock()": anything,
          },
        },
      ],
      "TestLinks.sign": [
        {
          args: () => [
            { action: "recover", format: "v3", state: "valid", code: "01234", bound: true },
          ],
          places: {
            wanted: inherits,
            "wanted.format": optional(),
            "wanted.state": optional(),
            "wanted.code": (value) => (value === undefined || value === null ? WORKS : undefined),
            "wanted.bound": (value) =>
              value === undefined || typeof value === "boolean" ? WORKS : undefined,
            "wanted.expiresAt": optional(isTime),
            "wanted.store": optional(),
          },
        },
      ],
      "TestLinks.redeem": [
        {
          args: () => [{ ...link }],
          places: {
            link: anything,
            "link.action": anything,
            "link.code": anything,
            "link.bindingIsProven": anything,
            "link.browserCode": anything,
          },
        },
      ],
      "TestLink.url": [
        { args: () => ["https://app.example"], places: { site: when(isText, EITHER) } },
      ],
      ".inbox": [
        {
          args: () => ["http://127.0.0.1:8025", { actions: actions(), fetch: fetching }],
          places: {
            url: when(isText, EITHER),
            options: anything,
            "options.actions": optional(when(isObject, EITHER)),
            "options.fetch": optional(functions),
            "options.fetch()": anything,
          },
        },
      ],
      "Inbox.link": [{ args: asked, places: { ...ofWait, action: when(isText, EITHER) } }],
      "Inbox.mail": [{ args: asked, places: ofWait }],
    },
    async stillAccepts() {},
    async stillRefuses() {},
  };
}

// The recipes of the adapters for the database, on clients that answer as a server would; see
// surface_recipes.mjs. What real ones do is in test/database.

import { EITHER, anything, functions, optional, when } from "./surface_recipes.mjs";

const isText = (value) => typeof value === "string";
const isObject = (value) => typeof value === "object" && value !== null;
const isDate = (value) => {
  try {
    return value instanceof Date;
  } catch {
    // A proxy.
    return false;
  }
};
const texts = when(isText, EITHER);
const maybe = (more) => (value, what) => (value === null ? EITHER : optional(more)(value, what));
const isFlag = when((value) => typeof value === "boolean", EITHER);
const isNumber = when((value) => typeof value === "number", EITHER);
const isBinding = when(
  (value) =>
    ArrayBuffer.isView(value) && Object.prototype.toString.call(value) === "[object Uint8Array]",
  EITHER,
);

const TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/** What the functions answer, by a word of the statement. */
const ANSWERS = {
  redeem: '{"verdict":"ok","token":"7","subject_id":"1","transaction":"9"}',
  current: "9",
  browser_code: "31943",
  cancel_subject: "1",
  renew_link: "",
  recheck: "1",
  cancel: "true",
  enqueue: "7",
  request: "",
};

function answer(text) {
  const [, name = "current"] = /"mailroom"\.(\w+)/.exec(text) ?? [];
  return { rows: [{ answer: ANSWERS[name] }] };
}

const poolOfPg = () => {
  const query = async (text) => answer(text);
  return { query, connect: async () => ({ query, release() {} }) };
};

const sqlFunction = () => {
  const unsafe = async (text) => answer(text).rows;
  return { unsafe, begin: (work) => work({ unsafe, savepoint() {} }) };
};

const ofDrizzle = () => {
  const execute = async (query) => answer(query.getSQL().toQuery().sql);
  return { execute, transaction: (work) => work({ execute }) };
};

const ofKysely = () => {
  const executeQuery = async ({ sql }) => answer(sql);
  return {
    executeQuery,
    transaction: () => ({ execute: (work) => work({ executeQuery, isTransaction: true }) }),
  };
};

export function fixtureOfDatabase({ entries }) {
  const api = entries["./database"];
  const mailroom = api.createMailroom(api.pg(poolOfPg()));
  const secret = () => new Uint8Array(32).fill(7);
  const binding = () => new Uint8Array(16).fill(7);
  const cancels = async (adapter) => (await api.createMailroom(adapter).cancel("1")) === true;
  const ofMail = {
    "mail.recipientEmail": texts,
    "mail.recipientName": maybe(texts),
    "mail.subjectId": maybe(texts),
    "mail.payload": anything,
    "mail.language": maybe(texts),
    "mail.deliverAt": maybe(when(isDate, EITHER)),
    "mail.idempotencyKey": maybe(texts),
    "mail.binding": maybe(isBinding),
    "mail.noticeRecipient": maybe(texts),
    "mail.traceparent": anything,
  };
  const ofFunctions = {
    enqueue: [
      {
        args: () => [
          {
            action: "invite",
            recipientEmail: "ada@example.test",
            recipientName: "Ada",
            subjectId: "7",
            payload: { team: "Compilers" },
            language: "en",
            deliverAt: new Date(),
            idempotencyKey: "7",
            binding: binding(),
            noticeRecipient: "grace@example.test",
            traceparent: TRACEPARENT,
          },
        ],
        places: ofMail,
      },
    ],
    request: [
      {
        args: () => [
          {
            emailOrLogin: "ada",
            action: "recover",
            cooldown: 60,
            atMost: 5,
            per: 3600,
            binding: binding(),
            traceparent: TRACEPARENT,
          },
        ],
        places: {
          "asked.emailOrLogin": maybe(texts),
          "asked.cooldown": optional(isNumber),
          "asked.atMost": optional(isNumber),
          "asked.per": optional(isNumber),
          "asked.binding": maybe(isBinding),
          "asked.traceparent": anything,
        },
      },
    ],
    redeem: [
      {
        args: () => [
          {
            action: "recover",
            secret: secret(),
            code: "31943",
            bindingIsProven: false,
            browserCode: "31943",
          },
        ],
        places: {
          "link.secret": isBinding,
          "link.code": maybe(texts),
          "link.bindingIsProven": optional(isFlag),
          "link.browserCode": maybe(texts),
        },
      },
    ],
    renewLink: [
      {
        args: () => [{ action: "recover", secret: secret() }],
        places: { "link.secret": isBinding },
      },
    ],
    browserCode: [{ args: () => [binding()], places: { binding: isBinding } }],
    cancel: [
      {
        args: () => ["7"],
        places: { token: when((value) => isText(value) || typeof value === "bigint", EITHER) },
      },
    ],
    cancelSubject: [
      {
        args: () => ["7", { onlyProofs: true }],
        places: {
          subjectId: texts,
          options: optional(when(isObject, EITHER)),
          "options.onlyProofs": optional(isFlag),
        },
      },
    ],
    recheck: [{ args: () => ["7"], places: { subjectId: texts } }],
  };
  const actions = () =>
    entries["./actions"].defineActions({ vote: { number: 100, path: "/vote", digits: 6 } });
  const making = {
    options: optional(when(isObject, EITHER)),
    "options.schema": optional(texts),
    "options.actions": optional(when(isObject, EITHER)),
  };
  const named = (owner) =>
    Object.fromEntries(
      Object.entries(ofFunctions).map(([name, recipes]) => [`${owner}.${name}`, recipes]),
    );
  const link = () => ({
    action: "activate",
    secret: secret(),
    fields: new URLSearchParams(),
    code: undefined,
    bindingIsProven: false,
    browserCode: undefined,
  });
  /** A client of an adapter: whatever it does to the adapter's maker, no error is the package's. */
  const adapter = (name, client, methods) => ({
    [`.${name}`]: [
      {
        args: () => [client()],
        places: Object.fromEntries([
          [
            methods.parameter,
            when((value) => isObject(value) || typeof value === "function", EITHER),
          ],
          ...methods.names.flatMap((method) => [
            [
              `${methods.parameter}.${method}`,
              (value) => (value === undefined ? EITHER : functions(value)),
            ],
            [`${methods.parameter}.${method}()`, anything],
          ]),
        ]),
        letsThrough: cancels,
        makes: true,
        throwsAnything: () => true,
        // Its methods may ask the network.
        skips: (_, value) => value === globalThis,
      },
    ],
  });
  return {
    text: "42",
    samples: {
      Mailroom: mailroom,
      MailroomFunctions: mailroom.in(poolOfPg()),
      Redeemed: { verdict: "ok", token: "7", subjectId: "1" },
      RedeemFunction: api.redeemWith(mailroom),
      ...Object.fromEntries(
        [
          // Without what is no name.
          ["Defined", { ...api.FURTHER_ACTIONS }],
          [".SHIPPED_ACTIONS", api.SHIPPED_ACTIONS],
        ].flatMap(([owner, actions]) => [
          [owner, actions],
          ...Object.entries(actions).map(([action, value]) => [`${owner}.${action}`, value]),
        ]),
      ),
    },
    recipes: {
      ...named("Mailroom"),
      ...named("MailroomFunctions"),
      "Mailroom.in": [
        {
          args: () => [poolOfPg()],
          places: {
            transaction: when((value) => isObject(value) || typeof value === "function", EITHER),
          },
        },
      ],
      ".createMailroom": [
        {
          args: () => [api.pg(poolOfPg()), { schema: "mailroom", actions: actions() }],
          places: making,
        },
      ],
      ".redeemWith": [
        {
          args: () => [mailroom, { activate() {} }],
          // The mailroom itself is no object that can be copied with another member.
          places: {
            effects: optional(when(isObject, EITHER)),
            ...Object.fromEntries(
              ["in", ...Object.keys(ofFunctions)].flatMap((name) => [
                [`mailroom.${name}`, anything],
                [`mailroom.${name}()`, anything],
              ]),
            ),
          },
          letsThrough: async (redeem) => (await redeem(link())) === "ok",
          makes: true,
        },
      ],
      ...adapter("pg", poolOfPg, { parameter: "pool", names: ["connect", "query"] }),
      ...adapter("postgresJs", sqlFunction, { parameter: "sql", names: ["unsafe", "begin"] }),
      ...adapter("bunSql", sqlFunction, { parameter: "sql", names: ["unsafe", "begin"] }),
      ...adapter("drizzle", ofDrizzle, {
        parameter: "database",
        names: ["execute", "transaction"],
      }),
      ...adapter("kysely", ofKysely, {
        parameter: "database",
        names: ["executeQuery", "transaction"],
      }),
      ...adapter("neon", () => ({ query: async (text) => answer(text).rows }), {
        parameter: "sql",
        names: ["query"],
      }),
      // What becomes of their calls a test with a server shows.
      ".http": [
        {
          args: () => [
            // Short, in seconds, and nothing is asked.
            { url: "https://app.example/mailroom", token: "token", fetch() {}, timeout: 60 },
          ],
          places: {
            "options.url": texts,
            "options.token": texts,
            "options.fetch": optional(functions),
            "options.fetch()": anything,
            "options.timeout": optional(isNumber),
          },
        },
      ],
      ".postgrest": [
        {
          args: () => [{ url: "https://app.example/rest/v1", key: "key", schema: "public" }],
          places: {
            "options.url": texts,
            "options.key": texts,
            "options.schema": optional(texts),
            "options.timeout": optional(isNumber),
          },
        },
      ],
    },
    reenter() {},
    stillAccepts() {},
    stillRefuses() {},
  };
}

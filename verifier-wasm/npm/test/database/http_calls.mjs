// What `http` does on a runtime without TCP: every function, against a real `mailroom serve`. It
// runs there, so it has the web's interfaces alone.

import { createMailroom, http, redeemWith } from "mailroom-verifier/database";

import { holds, same } from "./expect.mjs";

const bytes = (hex) => Uint8Array.from(hex.match(/../g), (pair) => Number.parseInt(pair, 16));

async function thrownBy(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

/**
 * @param prepared `url` of a server, `away` of one without a database, `nobody` where none listens;
 * `token`, and `links` that were made before
 * @param ask what `http` takes for `fetch`
 */
export async function* calls({ url, away, nobody, token, links, email }, ask) {
  const connect = (to, bearer = token) =>
    createMailroom(http({ url: to, token: bearer, fetch: ask }));
  const mailroom = connect(url);
  const binding = bytes("0f".repeat(16));
  let made;
  yield [
    "a mail has all that it was given",
    async () => {
      const mail = {
        action: "invite",
        recipientEmail: email,
        recipientName: "Ada ' Lovelace",
        subjectId: "elsewhere",
        payload: { team: "Überprüfer 🦉", list: [1.5, null] },
        language: "pt-BR",
        deliverAt: new Date(Date.now() + 3_600_000),
        idempotencyKey: `elsewhere ${email}`,
        binding,
        noticeRecipient: `old.${email}`,
      };
      made = await mailroom.enqueue(mail);
      holds(/^[1-9][0-9]{17,}$/.test(made), made);
      same(await mailroom.enqueue(mail), made, "the same again");
    },
  ];
  yield [
    "a link is used once, by the right code",
    async () => {
      const { secret, code, subject } = links.coded;
      const link = { action: "recover", secret: bytes(secret) };
      const wrong = await mailroom.redeem({ ...link, code: code === "00000" ? "11111" : "00000" });
      same(wrong.verdict, "wrong_code", "another code");
      const used = await mailroom.redeem({ ...link, code });
      same(`${used.verdict} ${used.subjectId}`, `ok ${subject}`, "the code");
      same((await mailroom.redeem({ ...link, code })).verdict, "used", "again");
      same(await mailroom.renewLink(link), undefined, "a new one in its place");
    },
  ];
  yield [
    "the other functions answer",
    async () => {
      const digits = await mailroom.browserCode(binding);
      holds(/^[0-9]{5}$/.test(digits), digits);
      same(await mailroom.browserCode(binding), digits, "the same browser");
      same(await mailroom.recheck("elsewhere"), 0, "deferred mails");
      same(await mailroom.cancel(made), true, "cancelled");
      same(await mailroom.cancel(made), false, "cancelled before");
      same(await mailroom.cancelSubject(links.plain.subject), 1, "of a subject");
      const request = mailroom.request({ action: "recover", emailOrLogin: "ada" });
      // Without accounts of Mailroom's own there is no such function.
      same((await thrownBy(request)).code, "MAILROOM_SETUP", "a function that is not there");
    },
  ];
  yield [
    "what is refused says why, and repeats no secret",
    async () => {
      const secret = bytes("ab".repeat(32));
      for (const [to, bearer, code] of [
        [url, "mrst_another", "MAILROOM_TOKEN"],
        [away, token, "MAILROOM_AWAY"],
        [nobody, token, undefined],
      ]) {
        const error = await thrownBy(connect(to, bearer).redeem({ action: "invite", secret }));
        same(error.name, "DatabaseError", String(error.stack));
        if (code !== undefined) same(error.code, code, String(error.stack));
        holds(!/mrst_|abab/.test(`${error.stack} ${JSON.stringify(error)}`), error.stack);
      }
      const notAnAddress = { action: "notice", recipientEmail: "hunter2" };
      const error = await thrownBy(mailroom.enqueue(notAnAddress));
      same(error.code, "22023", String(error.stack));
      holds(!error.stack.includes("hunter2"), error.stack);
    },
  ];
  yield [
    "a link stays good while the database is away",
    async () => {
      const link = {
        action: "invite",
        secret: bytes("ab".repeat(32)),
        code: undefined,
        bindingIsProven: false,
        browserCode: undefined,
      };
      const answer = await redeemWith(connect(away))(link);
      same(answer.away?.code, "MAILROOM_AWAY", JSON.stringify(answer));
    },
  ];
}

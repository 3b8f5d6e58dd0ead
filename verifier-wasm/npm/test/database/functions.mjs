// What every adapter does: the functions, what they are given, and what they refuse.

import { holds, same } from "../runtimes/suite/expect.mjs";
import { linkOf } from "./scene.mjs";

/** What a promise is rejected with. */
export async function thrownBy(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

const binding = Uint8Array.from({ length: 16 }, (_, index) => 255 - index);
const TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

export function* functions({ mailroom, scene, load, away, api }) {
  const { InvalidArgumentError } = load("errors");
  yield [
    "a mail has all that it was given",
    async () => {
      const { id, email } = await scene.user();
      const payload = { team: "Überprüfer 🦉", list: [1, null, "a'b\"\\"] };
      const deliverAt = new Date(Date.now() + 3_600_000);
      const token = await mailroom.enqueue({
        action: "invite",
        recipientEmail: email,
        recipientName: "Ada ' Lovelace",
        subjectId: id,
        payload,
        language: "pt-BR",
        deliverAt,
        idempotencyKey: `key ${id}`,
        binding,
        noticeRecipient: `old.${email}`,
        traceparent: TRACEPARENT,
      });
      same(typeof token, "string", "an id is a text");
      holds(BigInt(token) > 2n ** 53n, "it is a large one");
      const row = await scene.issued(token);
      same(`${row.name} ${row.subject_id} ${row.recipient_email}`, `invite ${id} ${email}`, "row");
      same(`${row.recipient_name} ${row.language}`, "Ada ' Lovelace pt-BR", "name and language");
      same(row.binding.toString("hex"), Buffer.from(binding).toString("hex"), "binding");
      same(row.notice_recipient, `old.${email}`, "who gets notices");
      same(row.traceparent, TRACEPARENT, "trace");
      const [kept] = await scene.rows("SELECT payload FROM mailroom.payloads WHERE token = $1", [
        token,
      ]);
      same(
        JSON.stringify(kept.payload, ["list", "team"]),
        JSON.stringify(payload, ["list", "team"]),
        "payload",
      );
      const { due_at: due } = await scene.queued(token);
      holds(Math.abs(due - deliverAt) <= 1_000, `due at ${due}`);
    },
  ];
  yield [
    "what is no traceparent is ignored",
    async () => {
      const { email } = await scene.user();
      const bad = ["", "00-no", TRACEPARENT.toUpperCase(), `${TRACEPARENT}\n`, "\0", "\ud800", 7];
      for (const traceparent of [...bad, {}, null, undefined, "x".repeat(10_000)]) {
        const mail = { action: "notice", recipientEmail: email, traceparent };
        const row = await scene.issued(await mailroom.enqueue(mail));
        same(row.traceparent, null, String(traceparent).slice(0, 60));
      }
    },
  ];
  yield [
    "what is undefined or null is not given",
    async () => {
      const { email } = await scene.user();
      const token = await mailroom.enqueue({
        action: "notice",
        recipientEmail: email,
        recipientName: null,
        subjectId: undefined,
        payload: null,
        language: undefined,
        deliverAt: null,
        idempotencyKey: undefined,
        binding: null,
        noticeRecipient: null,
      });
      const row = await scene.issued(token);
      same(
        JSON.stringify([row.recipient_name, row.subject_id, row.language, row.binding]),
        "[null,null,null,null]",
        "row",
      );
    },
  ];
  yield [
    "a key that comes again answers the same token, and with other arguments is refused",
    async () => {
      const { id, email } = await scene.user();
      const mail = { action: "invite", recipientEmail: email, idempotencyKey: `again ${id}` };
      same(await mailroom.enqueue(mail), await mailroom.enqueue({ ...mail }), "tokens");
      const error = await thrownBy(mailroom.enqueue({ ...mail, payload: 1 }));
      same(`${error.name} ${error.code}`, "DatabaseError 23505", "error");
    },
  ];
  yield [
    "a wrong code is counted, the right one is taken once",
    async () => {
      const user = await scene.user();
      const { token, link, code } = await scene.link(mailroom, "recover", user);
      const { action, secret } = link;
      for (const wrong of ["00000", undefined, null, "not\0text", "\ud800"]) {
        const { verdict } = await mailroom.redeem({
          action,
          secret,
          code: wrong === code ? "1" : wrong,
        });
        same(verdict, "wrong_code", JSON.stringify(wrong));
      }
      // One without a code is one, too: the link is not bound.
      same(await scene.attempts(token), 5, "attempts");
      same((await mailroom.redeem(link)).verdict, "too_many_attempts", "a sixth");
      const next = await scene.link(mailroom, "recover", user);
      same(
        JSON.stringify(await mailroom.redeem(next.link)),
        JSON.stringify({ verdict: "ok", token: next.token, subjectId: user.id }),
        "the right one",
      );
      same(JSON.stringify(await mailroom.redeem(next.link)), '{"verdict":"used"}', "once");
      same(
        (await mailroom.redeem({ action: "recover", secret: new Uint8Array(32) })).verdict,
        "unknown",
        "nobody's",
      );
    },
  ];
  yield [
    "a bound link takes the browser, or its digits",
    async () => {
      const { id, email } = await scene.user();
      const own = Uint8Array.from({ length: 16 }, () => Math.floor(Math.random() * 256));
      const digits = await mailroom.browserCode(own);
      same(/^\d{5}$/.test(digits), true, "five digits");
      same(await mailroom.browserCode(own), digits, "the same again");
      const make = async () =>
        (
          await scene.queued(
            await mailroom.enqueue({
              action: "invite",
              recipientEmail: email,
              subjectId: id,
              binding: own,
            }),
          )
        ).secret;
      const secret = await make();
      same((await mailroom.redeem({ action: "invite", secret })).verdict, "wrong_code", "without");
      same(
        (await mailroom.redeem({ action: "invite", secret, browserCode: digits })).verdict,
        "ok",
        "digits",
      );
      const link = linkOf({ action: "invite", secret: await make(), bindingIsProven: true });
      same((await mailroom.redeem(link)).verdict, "ok", "the browser");
    },
  ];
  yield [
    "tokens are cancelled, one and those of a subject",
    async () => {
      const { id, email } = await scene.user();
      const mail = { recipientEmail: email, subjectId: id };
      const [one] = [
        await mailroom.enqueue({ ...mail, action: "invite" }),
        await mailroom.enqueue({ ...mail, action: "activate" }),
        await mailroom.enqueue({ ...mail, action: "invite" }),
      ];
      same(await mailroom.cancel(BigInt(one)), true, "cancelled");
      same(await mailroom.cancel(one), false, "cancelled before");
      same(await mailroom.cancelSubject(id, { onlyProofs: true }), 1, "proofs");
      same(await mailroom.cancelSubject(id), 1, "the rest");
      same(await mailroom.recheck(id), 0, "nothing waits");
    },
  ];
  yield [
    "a link is renewed if its subject is as it was, and the answer is the same if not",
    async () => {
      await scene.rows("UPDATE mailroom.actions SET cooldown = '0' WHERE name = 'recover'");
      const { id, email } = await scene.user();
      const first = await mailroom.enqueue({
        action: "recover",
        recipientEmail: email,
        subjectId: id,
      });
      const { secret } = await scene.queued(first);
      const mails = async () => {
        const text = "SELECT count(*)::integer FROM mailroom.issued_tokens WHERE subject_id = $1";
        const [{ count }] = await scene.rows(text, [id]);
        return count;
      };
      const link = { action: "recover", secret: new Uint8Array(secret) };
      same(await mailroom.renewLink(link), undefined, "the answer");
      same(await mails(), 2, "mails");
      same(await mailroom.renewLink(link), undefined, "the answer once more");
      same(await mails(), 2, "mails: there is a later one");
    },
  ];
  yield [
    "what the database refuses says why and repeats nothing",
    async () => {
      const error = await thrownBy(
        mailroom.enqueue({ action: "notice", recipientEmail: "Nobody here", payload: "a secret" }),
      );
      same(`${error.name} ${error.code}`, "DatabaseError 22023", "error");
      holds(/recipient_email is not an address/.test(error.message), error.message);
      const { inspect } = await import("node:util");
      holds(!/Nobody here|a secret/.test(inspect(error, { showHidden: true })), inspect(error));
    },
  ];
  const refused = {
    "an unknown action": () => mailroom.enqueue({ action: "invent", recipientEmail: "a@b.test" }),
    "a misspelt option": () =>
      mailroom.enqueue({ action: "notice", recipientEmail: "a@b.test", subject: "7" }),
    "an id that is a number": () =>
      mailroom.enqueue({ action: "notice", recipientEmail: "a@b.test", subjectId: 7 }),
    "a binding in hexadecimal digits": () =>
      mailroom.enqueue({ action: "notice", recipientEmail: "a@b.test", binding: "00".repeat(16) }),
    "a time that is none": () =>
      mailroom.enqueue({ action: "notice", recipientEmail: "a@b.test", deliverAt: new Date("x") }),
    "a time as a text": () =>
      mailroom.enqueue({ action: "notice", recipientEmail: "a@b.test", deliverAt: "2030-01-01" }),
    "a payload without JSON": () =>
      mailroom.enqueue({ action: "notice", recipientEmail: "a@b.test", payload: 7n }),
    "a function as payload": () =>
      mailroom.enqueue({ action: "notice", recipientEmail: "a@b.test", payload() {} }),
    "half a character": () =>
      mailroom.enqueue({ action: "notice", recipientEmail: "\ud800@b.test" }),
    "no mail": () => mailroom.enqueue(),
    "a short secret": () => mailroom.redeem({ action: "activate", secret: new Uint8Array(31) }),
    "a secret as a text": () => mailroom.redeem({ action: "activate", secret: "00".repeat(32) }),
    "a misspelt proof": () =>
      mailroom.redeem({ action: "activate", secret: new Uint8Array(32), bindingProven: true }),
    "no link": () => mailroom.redeem(null),
    "a code that is a number": () =>
      mailroom.redeem({ action: "recover", secret: new Uint8Array(32), code: 12345 }),
    "a short binding": () => mailroom.browserCode(new Uint8Array(15)),
    "a token that is a number": () => mailroom.cancel(7),
    "a token that is no number": () => mailroom.cancel("seven"),
    "no subject": () => mailroom.cancelSubject(""),
    "an unknown choice": () => mailroom.cancelSubject("7", { only: true }),
    "a limit below nothing": () =>
      mailroom.request({ emailOrLogin: "ada", action: "recover", cooldown: -1 }),
    "no mails at most": () =>
      mailroom.request({ emailOrLogin: "ada", action: "recover", atMost: 0 }),
  };
  for (const [what, call] of Object.entries(refused)) {
    yield [
      `${what} is refused before anything is sent`,
      async () => {
        const error = await thrownBy(call());
        holds(error instanceof InvalidArgumentError, String(error?.stack));
      },
    ];
  }
  for (const [what, gone] of Object.entries(away)) {
    yield [
      `${what} is told to callers, and is away to a handler`,
      async () => {
        const error = await thrownBy(gone.browserCode(binding));
        same(error.name, "DatabaseError", String(error.stack));
        const link = linkOf({ action: "activate", secret: new Uint8Array(32).fill(171) });
        const redeem = gone.in ? api.redeemWith(gone, { activate() {} }) : api.redeemWith(gone);
        const answer = await redeem(link);
        holds(answer.away instanceof Error, JSON.stringify(answer));
        same(answer.away.name, "DatabaseError", String(answer.away.stack));
        holds(answer.away.message !== "", "it says why");
        const { inspect } = await import("node:util");
        holds(!/abababab/.test(inspect(answer.away, { showHidden: true })), inspect(answer.away));
      },
    ];
  }
}

// The functions inside of transactions of the application's.

import { holds, same } from "../runtimes/suite/expect.mjs";
import { thrownBy } from "./functions.mjs";

export function* inTransactions({ mailroom, scene, client, transaction, run, load }) {
  const { InvalidArgumentError } = load("errors");
  yield [
    "a mail is made if the transaction commits, and only then",
    async () => {
      const { id, email } = await scene.user();
      const mail = { action: "activate", recipientEmail: email, subjectId: id };
      let undone;
      const error = await thrownBy(
        transaction(async (tx) => {
          undone = await mailroom.in(tx).enqueue(mail);
          throw new Error("the application's own");
        }),
      );
      same(error.message, "the application's own", "error");
      same(await scene.issued(undone), undefined, "undone");
      const made = await transaction((tx) => mailroom.in(tx).enqueue(mail));
      same((await scene.issued(made)).subject_id, id, "made");
    },
  ];
  yield [
    "a user who is being inserted gets a mail",
    async () => {
      const { id, email } = await scene.user();
      await transaction(async (tx) => {
        await run(tx, "UPDATE users SET email = 'new.' || email WHERE id = $1", [id]);
        await mailroom
          .in(tx)
          .enqueue({ action: "activate", recipientEmail: `new.${email}`, subjectId: id });
      });
      same(await mailroom.cancelSubject(id), 1, "tokens");
    },
  ];
  yield [
    "a link is redeemed with what it is for",
    async () => {
      const user = await scene.user();
      const { link, token } = await scene.link(mailroom, "activate", user);
      const { verdict, ...used } = await transaction((tx) => mailroom.in(tx).redeem(link));
      same(`${verdict} ${used.token} ${used.subjectId}`, `ok ${token} ${user.id}`, "redeemed");
    },
  ];
  yield [
    "a transaction that has failed says so",
    async () => {
      let said;
      await thrownBy(
        transaction(async (tx) => {
          await run(tx, "SELECT 1 / 0", []).catch(() => {});
          said = await thrownBy(mailroom.in(tx).browserCode(new Uint8Array(16)));
          throw said;
        }),
      );
      same(`${said.name} ${said.code}`, "DatabaseError 25P02", "error");
    },
  ];
  yield [
    "the whole client, or something else, is no transaction",
    () => {
      for (const given of [client, undefined, null, {}, "BEGIN", 7, mailroom]) {
        let error;
        try {
          mailroom.in(given);
        } catch (thrown) {
          error = thrown;
        }
        holds(error instanceof InvalidArgumentError, `${typeof given}: ${error?.stack}`);
      }
    },
  ];
}

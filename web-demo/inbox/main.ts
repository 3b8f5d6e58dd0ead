// The inbox: stands for the mail server of a real installation, and for the mailboxes behind it.

import { EventStream } from "../service/event_stream.ts";
import { announce, BadRequest, run } from "../service/server.ts";
import { mailOf } from "./mail.ts";
import { Mailbox } from "./mailbox.ts";
import { receive } from "./smtp.ts";

const mailbox = new Mailbox();

const port = await receive(Number(process.env.SMTP_PORT ?? 0), (email, to) =>
  mailbox.deliver(mailOf(email, to), email.html ?? ""),
);
announce("smtp", port);

await run({
  "GET /mails": async (_request, _response, url) => {
    const address = url.searchParams.get("to");
    return { body: address === null ? mailbox.newest(20) : mailbox.of(address) };
  },

  "GET /mail": async (_request, _response, url) => {
    const html = mailbox.html(url.searchParams.get("id") ?? "");
    if (html === undefined) throw new BadRequest("There is no such mail.", 404);
    return { body: { html } };
  },

  "GET /counts": async () => ({ body: mailbox.counts }),

  // A reader that was away says what it got last, and misses nothing;
  // one that never read begins now.
  "GET /events": async (request, response) => {
    const stream: EventStream = new EventStream(response, () => stop());
    const last = request.headers["last-event-id"];
    if (typeof last === "string") {
      for (const mail of mailbox.since(last)) stream.send("mail", mail);
    }
    stream.mark(mailbox.mark);
    const stop = mailbox.listen((mail) => stream.send("mail", mail, mailbox.mark));
    return undefined;
  },
});

// The inbox: stands for the mail service of a real installation, and for the mailboxes behind it.

import { EventStream } from "../service/event_stream.ts";
import { BadRequest, readObject, run } from "../service/server.ts";
import type { Item } from "./mail.ts";
import { Mailbox } from "./mailbox.ts";

const mailbox = new Mailbox();

await run({
  "POST /mails": async (request) => {
    const { items } = await readObject(request);
    if (!Array.isArray(items)) throw new BadRequest("Send items.");
    for (const item of items as Item[]) mailbox.deliver(item);
    return { body: { taken: items.length } };
  },

  "GET /mails": async (_request, _response, url) => {
    const address = url.searchParams.get("to");
    return { body: address === null ? mailbox.newest(20) : mailbox.of(address) };
  },

  "GET /counts": async () => ({ body: mailbox.counts }),

  // A reader that was away says what it got last, and misses nothing; one that never read begins now.
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

// The mail server of the inbox: takes mails by SMTP on this machine.

import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

import PostalMime, { type Email } from "postal-mime";
import { SMTPServer } from "smtp-server";

/** The largest mail, in bytes. */
const MOST = 1024 * 1024;

/** Accepts mails for everybody. Returns the port. */
export async function receive(
  port: number,
  deliver: (email: Email, to: string) => void,
): Promise<number> {
  const smtp = new SMTPServer({
    disabledCommands: ["AUTH", "STARTTLS"],
    disableReverseLookup: true,
    // Addresses with quotes are somebody's, too.
    lenientAddressParsing: true,
    logger: false,
    rejectOversized: true,
    size: MOST,
    onData: (stream, { envelope }, answer) => {
      const take = async () => {
        const content = await buffer(stream);
        // The server itself refuses what is too large, once all of it was read.
        if (stream.sizeExceeded) return;
        const email = await PostalMime.parse(content);
        for (const { address } of envelope.rcptTo) deliver(email, address);
      };
      take().then(
        () => answer(),
        () => answer(Object.assign(new Error("this is no mail"), { responseCode: 554 })),
      );
    },
  });
  // A client that hangs up has an error of its own.
  smtp.on("error", () => undefined);
  const server = smtp.listen(port, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

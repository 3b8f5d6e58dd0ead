// A sender for `mailroom collect --sender`, as one writes it with nodemailer's pool. Started by
// `cargo xtask bench send`.

import { createInterface } from "node:readline";
import nodemailer from "nodemailer";

const { SMTP_SERVER, MAIL_FROM, LINK_BASE } = process.env;
const [host, port] = SMTP_SERVER.split(":");
const transport = nodemailer.createTransport({
  pool: true,
  host,
  port: Number(port),
  ignoreTLS: true,
});

async function send(item) {
  const link = `${LINK_BASE}${item.path}?token=${item.token}`;
  await transport.sendMail({
    from: MAIL_FROM,
    to: { address: item.email },
    subject: item.action === "recover" ? "Choose a new password" : "Activate your account",
    messageId: `<${item.key}@mailroom.invalid>`,
    text: `${link}\n${item.code}\n`,
    html: `<p><a href="${link}">Continue</a></p><p>${item.code}</p>`,
  });
}

for await (const line of createInterface({ input: process.stdin })) {
  const { batch, items } = JSON.parse(line);
  Promise.allSettled(items.map(send)).then((results) => {
    const failed = (index) => results[index].status === "rejected";
    const ok = items.filter((_, index) => !failed(index)).map(({ id }) => id);
    const retry = items.filter((_, index) => failed(index)).map(({ id }) => ({ id }));
    console.log(JSON.stringify({ batch, ok, retry }));
  });
}
transport.close();

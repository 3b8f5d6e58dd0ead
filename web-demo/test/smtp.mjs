// A client that sends by SMTP whatever it is told to.

import { connect } from "node:net";
import { createInterface } from "node:readline";

/**
 * Sends a mail on a connection of its own. Returns the code of the answer to its content, or to
 * what was refused before.
 */
export async function sendMail(port, content, to = "a@example.test") {
  const { ask, socket } = await opened(port, to);
  const code = await ask(content.replace(/^\./gm, ".."), "\r\n.");
  socket.destroy();
  return code;
}

/** Goes away in the middle of a mail. */
export async function cutMail(port, content) {
  const { socket } = await opened(port, "a@example.test");
  await new Promise((resolve) => socket.write(content, resolve));
  socket.resetAndDestroy();
}

export function mail({
  id,
  subject = "Hello",
  text = "Hello",
  html = "<html><head></head><body>Hello</body></html>",
}) {
  return [
    "From: Somebody <somebody@example.test>",
    `Subject: ${subject}`,
    ...(id === undefined ? [] : [`Message-ID: ${id}`]),
    "MIME-Version: 1.0",
    'Content-Type: multipart/alternative; boundary="x"',
    "",
    `--x\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n${text}`,
    `--x\r\nContent-Type: text/html; charset=utf-8\r\n\r\n${html}`,
    "--x--",
  ].join("\r\n");
}

async function opened(port, to) {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined);
  const lines = createInterface({ input: socket })[Symbol.asyncIterator]();
  const answer = async () => (await lines.next()).value?.slice(0, 3);
  const ask = (...texts) => {
    socket.write(`${texts.join("")}\r\n`);
    return answer();
  };
  await answer();
  for (const command of [
    "HELO x.test",
    "MAIL FROM:<somebody@example.test>",
    `RCPT TO:<${to}>`,
    "DATA",
  ]) {
    const code = await ask(command);
    if (!/^[23]/.test(code)) throw new Error(`${command} is answered with ${code}`);
  }
  return { ask, socket };
}

#!/usr/bin/env python3
"""A mail server (aiosmtpd) that refuses what it is told to.

It prints its port, then as lines of JSON each recipient that it is asked about, in `asked`, and
each accepted mail. The recipient says what happens:

- `PHASE-CODE@…` is refused with this code in this phase (`rcpt`, `data`, `content`).
- Each `PHASE-CODE-first…@…` is refused only once.
- `gone…@…` does not exist, which RCPT says.
- `cut…@…` loses its connection after the content, once.
- `lost…@…` loses its connection after the content, always.
- `silent…@…` is accepted without an answer to the content.
- `slow…@…` is refused for now after six seconds at RCPT.
- `late…@…` is taken after a second and a half at RCPT.
- `mute-PHASE…@…` gets no answer in this phase (`rcpt`, `data`), and its connection stays open.
"""
import argparse, asyncio, email, email.policy, json, os, ssl, sys, threading
from aiosmtpd import smtp

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, default=0)
parser.add_argument("--greeting", help="the code that greets every connection, instead of 220")
parser.add_argument(
    "--refuse", help="VERB=CODE: refuses a verb (EHLO, STARTTLS, AUTH or MAIL) with this code"
)
parser.add_argument(
    "--mails", type=int, default=0, help="how many mails a connection takes until MAIL is refused"
)
parser.add_argument("--mails-code", default="421", help="the code of that; 421 ends the connection")
parser.add_argument("--tls", choices=["starttls", "implicit"])
parser.add_argument("--certificate")
parser.add_argument("--key")
parser.add_argument("--login", help="user:password")
parser.add_argument("--utf8", action="store_true", help="offers SMTPUTF8")
parser.add_argument("--delay", type=float, default=0, help="seconds until the content is answered")
parser.add_argument(
    "--hold", type=int, help="how many contents are taken until the others wait for `release`"
)
options = parser.parse_args()
options.refuse = dict([options.refuse.split("=")] if options.refuse else [])
seen, lock = set(), threading.Lock()


def refusal(phase, recipient):
    words = recipient.split("@")[0].split("-")
    if words[0] != phase or (len(words) > 2 and recipient in seen):
        return None
    seen.add(recipient)
    return words[1]


async def mute(phase, recipient):
    if recipient.startswith(f"mute-{phase}"):
        await asyncio.sleep(3600)


def tell(**event):
    with lock:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()


def echo():
    """Tells an empty event for each line: all mails that were accepted before stand before it.

    After `refuse` every connection and mail gets 421, until `accept`.
    """
    for line in sys.stdin:
        if line.strip() == "release":
            options.hold = None
        elif line.strip():
            options.greeting = "421" if line.strip() == "refuse" else None
            options.refuse = {"MAIL": "421"} if options.greeting else {}
        tell()


class Server(smtp.SMTP):
    mails = 0

    async def _handle_client(self):
        if options.greeting:
            await self.refuse(options.greeting)
            self.transport.close()
        else:
            await super()._handle_client()

    async def refuse(self, code, never="5.7.1 never"):
        await self.push(f"{code} 4.7.1 not now" if code < "5" else f"{code} {never}")
        if code == "421":
            self.transport.close()

    async def smtp_EHLO(self, arg):
        await self.do("EHLO", super().smtp_EHLO, arg)

    async def smtp_STARTTLS(self, arg):
        await self.do("STARTTLS", super().smtp_STARTTLS, arg)

    async def smtp_AUTH(self, arg):
        await self.do("AUTH", super().smtp_AUTH, arg)

    async def do(self, verb, handle, arg):
        code = options.refuse.get(verb)
        await (handle(arg) if code is None else self.refuse(code))

    async def smtp_MAIL(self, arg):
        if "MAIL" in options.refuse:
            await self.refuse(options.refuse["MAIL"])
        elif options.mails and self.mails >= options.mails:
            await self.refuse(options.mails_code)
        else:
            await super().smtp_MAIL(arg)

    async def smtp_RCPT(self, arg):
        tell(asked=arg.split("<")[1].split(">")[0])
        await mute("rcpt", arg.split("<")[1])
        if arg.split("<")[1].startswith("slow"):
            await asyncio.sleep(6)
            return await self.refuse("450")
        if arg.split("<")[1].startswith("late"):
            await asyncio.sleep(1.5)
        if arg.split("<")[1].startswith("gone"):
            return await self.refuse("550", "5.1.1 no such user")
        code = refusal("rcpt", arg.split("<")[1].split(">")[0])
        never = "5.1.1 no such user" if code == "550" else "5.7.1 never"
        await (self.refuse(code, never) if code else super().smtp_RCPT(arg))

    async def smtp_DATA(self, arg):
        await mute("data", "".join(self.envelope.rcpt_tos))
        code = self.envelope.rcpt_tos and refusal("data", self.envelope.rcpt_tos[0])
        await (self.refuse(code, "5.6.0 not this mail") if code else super().smtp_DATA(arg))


class Handler:
    taken = 0

    async def handle_DATA(self, server, session, envelope):
        [recipient] = envelope.rcpt_tos
        code = refusal("content", recipient)
        if code == "421":
            await server.push("421 4.3.2 closed")
            server.transport.close()
        if code:
            return f"{code} 4.6.0 not now" if code < "5" else f"{code} 5.6.0 not this mail"
        Handler.taken += 1
        while options.hold is not None and Handler.taken > options.hold:
            await asyncio.sleep(0.05)
        if options.delay:
            await asyncio.sleep(options.delay)
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        bodies = (mail.get_body((kind,)).get_content() for kind in ("plain", "html"))
        text, html = (body.replace("\r\n", "\n") for body in bodies)
        tell(
            to=recipient,
            sender=envelope.mail_from,
            content=envelope.content.decode(),
            text=text,
            html=html,
            hello=session.host_name,
        )
        if recipient.startswith("silent"):
            await asyncio.sleep(3600)
        if recipient.startswith("lost") or (recipient.startswith("cut") and recipient not in seen):
            seen.add(recipient)
            server.transport.abort()
        server.mails += 1
        return "250 ok"


def authenticate(server, session, envelope, mechanism, data):
    login = f"{data.login.decode()}:{data.password.decode()}"
    return smtp.AuthResult(success=login == options.login, handled=False)


async def main():
    context = None
    if options.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.certificate, options.key)
    settings = {"hostname": "x.test", "enable_SMTPUTF8": options.utf8, "auth_require_tls": False}
    if options.tls == "starttls":
        settings.update(tls_context=context, require_starttls=True)
    if options.login:
        settings.update(authenticator=authenticate, auth_required=True)
    implicit = context if options.tls == "implicit" else None
    server = await asyncio.get_running_loop().create_server(
        lambda: Server(Handler(), **settings), "127.0.0.1", options.port, ssl=implicit
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    # Ends with the test that started it.
    await asyncio.get_running_loop().run_in_executor(None, echo)
    os._exit(0)


asyncio.run(main())

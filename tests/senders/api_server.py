#!/usr/bin/env python3
"""A stand-in for the HTTP APIs of Resend and Postmark, as they document them.

It prints its port, then as lines of JSON each recipient of a request, in `asked`, and each accepted
mail. The recipient says what happens:

- `status-NNN@…` gets this status.
- `code-NNN@…` gets status 422 with this ErrorCode.
- `name-NAME@…` gets this error of Resend.
- With `-first` behind it, this happens only once.
- `lost…@…` is accepted without an answer, once.
- `cut…@…` is neither accepted nor answered, once.
- `slow…@…` is answered after a second.
"""
import argparse, http.server, json, random, ssl, sys, threading, time

parser = argparse.ArgumentParser()
parser.add_argument("--certificate")
parser.add_argument("--key")
parser.add_argument(
    "--per-second", type=int, default=0, help="requests a second; others get 429 with Retry-After"
)
parser.add_argument("--drop", type=float, default=0, help="the share of answers that are lost")
options = parser.parse_args()
lock, seen, keys, window, refuses = threading.Lock(), set(), {}, [], False
RESEND = {
    "invalid_from_address": 422,
    "validation_error": 422,
    "missing_required_field": 422,
    "daily_quota_exceeded": 429,
    "concurrent_idempotent_requests": 409,
    "invalid_idempotent_request": 409,
    "application_error": 500,
    "security_error": 451,
}


def once(name):
    with lock:
        is_new = name not in seen
        seen.add(name)
        return is_new


def tell(**event):
    with lock:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # An answer is one write: the second of two would wait for the client's delayed acknowledgement
    # of the first.
    wbufsize = -1

    def log_message(self, *_):
        pass

    def answer(self, status, body, **headers):
        text = json.dumps(body).encode()
        self.send_response(status)
        headers = {"Content-Type": "application/json", "Content-Length": len(text), **headers}
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(text)

    def accept(self, to, sender, body, answer):
        key = self.headers.get("Idempotency-Key", "")
        tell(
            to=to,
            sender=sender,
            content=f"Idempotency-Key: {key}\r\n\r\n{json.dumps(body)}",
            text=body.get("text") or body.get("TextBody"),
            html=body.get("html") or body.get("HtmlBody"),
        )
        return answer

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for to in body.get("to", [body["To"]] if "To" in body else []):
            tell(asked=to)
        now = time.monotonic()
        with lock:
            window[:] = [at for at in window if at > now - 1]
            is_above = refuses or options.per_second and len(window) >= options.per_second
            window.append(now)
        if is_above:
            return self.answer(429, {"name": "rate_limit_exceeded"}, Retry_After=1)
        paths = {"/emails": self.resend, "/email": self.postmark}
        paths.get(self.path, lambda _: self.answer(404, {}))(body)

    def is_lost(self, to):
        if to.startswith("lost") and once(to) or random.random() < options.drop:
            self.close_connection = True
            return True
        return False

    def fault(self, to):
        words = to.split("@")[0].split("-")
        if words[0] not in ("status", "code", "name", "cut"):
            return False
        if words[-1] == "first" and not once(to):
            return False
        if words[0] == "cut":
            self.close_connection = True
        elif words[0] == "status":
            headers = {"Retry_After": 7} if words[1] in ("429", "503") else {}
            self.answer(int(words[1]), {}, **headers)
        elif words[0] == "code":
            self.answer(422, {"ErrorCode": int(words[1]), "Message": f"about {to}"})
        else:
            self.answer(RESEND[words[1]], {"name": words[1], "message": f"about {to}"})
        return True

    def resend(self, body):
        if self.headers.get("Authorization") != "Bearer re_test":
            return self.answer(403, {"name": "invalid_api_key"})
        if not {"from", "to", "subject"} <= body.keys():
            return self.answer(422, {"name": "missing_required_field"})
        [to], key = body["to"], self.headers["Idempotency-Key"]
        if self.fault(to):
            return
        with lock:
            found = keys.setdefault(key, (body, None))
            is_new = found == (body, None) and (key, "begun") not in seen
            seen.add((key, "begun"))
        if found[0] != body:
            return self.answer(409, {"name": "invalid_idempotent_request"})
        if not is_new and found[1] is None:
            return self.answer(409, {"name": "concurrent_idempotent_requests"})
        answer = found[1]
        if is_new:
            if to.startswith("slow"):
                time.sleep(1)
            answer = self.accept(to, body["from"], body, {"id": key})
            with lock:
                keys[key] = (body, answer)
        if not self.is_lost(to):
            self.answer(200, answer)

    def postmark(self, body):
        if self.headers.get("X-Postmark-Server-Token") != "re_test":
            return self.answer(401, {"ErrorCode": 10})
        if not {"From", "To", "Subject"} <= body.keys():
            return self.answer(422, {"ErrorCode": 300})
        if self.fault(body["To"]):
            return
        accepted = {"ErrorCode": 0, "Message": "OK", "MessageID": "1"}
        answer = self.accept(body["To"], body["From"], body, accepted)
        if not self.is_lost(body["To"]):
            self.answer(200, answer)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
if options.certificate:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.certificate, options.key)
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
# Ends with the test that started it. An empty event for each line: all mails that were accepted
# before stand before it. After `refuse` every request gets 429, until `accept`; `forget` ends the
# time for which keys are kept.
for line in sys.stdin:
    if line.strip() == "forget":
        with lock:
            keys.clear()
            seen -= {entry for entry in seen if isinstance(entry, tuple)}
    refuses = {"refuse": True, "accept": False}.get(line.strip(), refuses)
    tell()

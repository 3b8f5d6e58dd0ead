#!/usr/bin/env python3
"""A sender for `mailroom collect --sender`, with the standard library alone.

It sends one mail a token by SMTP and answers at once.
"""
import json, os, smtplib, sys
from email import errors, headerregistry, message

def mail(item):
    # Raises ValueError: what only a server with SMTPUTF8 takes is this mail's fault, no outage.
    item["email"].encode("ascii")
    # Refuses line breaks in headers; Address refuses all but one plain address.
    mail = message.EmailMessage()
    mail["From"] = os.environ["MAIL_FROM"]
    mail["To"] = headerregistry.Address(addr_spec=item["email"])
    subjects = {"activate": "Activate your account", "recover": "Choose a new password"}
    mail["Subject"] = subjects[item["action"]]
    mail["Message-ID"] = f"<{item['id']}@mailroom.invalid>"  # The same at every attempt.
    code = f"Your code is {item['code']}.\n" if item["action"] == "recover" else ""
    link = f"{os.environ['LINK_BASE']}{item['path']}?token={item['token']}"
    mail.set_content(f"{link}\n{code}", cte="7bit")
    return mail

for line in sys.stdin:
    batch = json.loads(line)
    for item in batch["items"]:
        answer, code = {"batch": batch["batch"], "ok": [], "retry": [], "dead": []}, 0
        try:
            with smtplib.SMTP(os.environ["SMTP_SERVER"], timeout=20) as server:
                server.send_message(mail(item))
                # Also if the server goes away before it says goodbye.
                answer["ok"].append(item["id"])
        except smtplib.SMTPRecipientsRefused as refused:
            [(code, text)] = refused.recipients.values()
        except smtplib.SMTPDataError as refused:
            code, text = refused.smtp_code, refused.smtp_error
        # Of the whole server: no connection, no greeting, no sender allowed.
        except (OSError, smtplib.SMTPException) as error:
            code, text = 421, error
        except (ValueError, IndexError, errors.MessageError):
            reason = "no mail can be sent to this address"
            answer["dead"].append({"id": item["id"], "reason": reason})
        # The server is closed (RFC 5321, 3.8), also for the other mails of the batch.
        if code == 421:
            answer["unavailable"] = {"reason": str(text)}
        elif code:  # The mail is refused: for now, as by greylisting, or for ever.
            refused = {"id": item["id"], "reason": f"{code} {text!r}"}
            answer["dead" if code >= 500 else "retry"].append(refused)
        # What was sent is known, whatever happens to the rest.
        print(json.dumps(answer), flush=True)
        if code == 421:
            break

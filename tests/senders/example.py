#!/usr/bin/env python3
"""A sender for `mailroom collect --sender`: one mail a token by SMTP, and its answer at once. Standard library only."""
import json, os, smtplib, sys
from email import errors, headerregistry, message

def mail(item):
    # Raises ValueError: what only a server with SMTPUTF8 takes is this mail's fault, no outage.
    item["email"].encode("ascii")
    # Refuses line breaks in headers; Address refuses all but one plain address.
    mail = message.EmailMessage()
    mail["From"], mail["To"] = os.environ["MAIL_FROM"], headerregistry.Address(addr_spec=item["email"])
    mail["Subject"] = {"activate": "Activate your account", "recover": "Choose a new password"}[item["action"]]
    mail["Message-ID"] = f"<{item['id']}@mailroom.invalid>"  # The same at every attempt.
    code = f"Your code is {item['code']}.\n" if item["action"] == "recover" else ""
    mail.set_content(f"{os.environ['LINK_BASE']}{item['path']}?token={item['token']}\n{code}", cte="7bit")
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
            answer["dead"].append({"id": item["id"], "reason": "no mail can be sent to this address"})
        # The server is closed (RFC 5321, 3.8), also for the other mails of the batch.
        if code == 421:
            answer["unavailable"] = {"reason": str(text)}
        elif code:  # The mail is refused: for now, as by greylisting, or for ever.
            answer["dead" if code >= 500 else "retry"].append({"id": item["id"], "reason": f"{code} {text!r}"})
        # What was sent is known, whatever happens to the rest.
        print(json.dumps(answer), flush=True)
        if code == 421:
            break

"""The functions of the database, each as one statement with its values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, cast

from mailroom_client import arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime, timedelta

    from mailroom_client.arguments import Subject

Verdict = Literal[
    "ok", "unknown", "used", "expired", "not_eligible", "too_many_attempts", "wrong_code"
]
"""What the database says of a link."""

Answer = TypeVar("Answer")

TYPES = {
    "at_most": "int4",
    "binding": "bytea",
    "binding_proven": "bool",
    "cooldown": "interval",
    "deliver_at": "timestamptz",
    "only_proofs": "bool",
    "payload": "jsonb",
    "per": "interval",
    "secret": "bytea",
    "token": "int8",
}
"""The types of the parameters that are no texts, as the catalog names them."""


@dataclass(frozen=True)
class Redemption:
    """What the database says of a link. Commit whatever it says: wrong codes are counted by rows.

    A verdict other than `ok` has neither token nor subject.
    """

    verdict: Verdict
    token: int | None
    subject_id: str | None


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """A statement whose answer is one row."""

    statement: str
    """With `%s` for each value, and `{schema}` for the schema."""
    values: tuple[str, ...]
    read: Callable[[Sequence[object]], Answer]


def enqueue(
    *,
    action: str,
    recipient_email: str,
    recipient_name: str | None = None,
    subject_id: Subject | None = None,
    payload: object = None,
    language: str | None = None,
    deliver_at: datetime | None = None,
    idempotency_key: str | None = None,
    binding: bytes | None = None,
    notice_recipient: str | None = None,
    traceparent: str | None = None,
) -> Call[int]:
    """Makes a token and queues its mail."""
    values = {
        "action": arguments.text("action", action),
        "recipient_email": arguments.text("recipient_email", recipient_email),
    } | _given(
        recipient_name=(arguments.text, recipient_name),
        subject_id=(arguments.subject, subject_id),
        payload=(arguments.document, payload),
        language=(arguments.text, language),
        deliver_at=(arguments.moment, deliver_at),
        idempotency_key=(arguments.text, idempotency_key),
        binding=(arguments.binding, binding),
        notice_recipient=(arguments.text, notice_recipient),
        traceparent=(arguments.text, arguments.traceparent(traceparent)),
    )
    return Call(*_function("enqueue", values), _number)


def request(
    *,
    email_or_login: str,
    action: str,
    cooldown: timedelta | None = None,
    at_most: int | None = None,
    per: timedelta | None = None,
    binding: bytes | None = None,
    traceparent: str | None = None,
) -> Call[None]:
    """Makes a token for an account of Mailroom's own, if there is one that may have it."""
    values = {
        "email_or_login": arguments.sent("email_or_login", email_or_login),
        "action": arguments.text("action", action),
    } | _given(
        cooldown=(arguments.span, cooldown),
        at_most=(arguments.count, at_most),
        per=(arguments.span, per),
        binding=(arguments.binding, binding),
        traceparent=(arguments.text, arguments.traceparent(traceparent)),
    )
    return Call(*_function("request", values), lambda _row: None)


def redeem(
    *,
    secret: bytes,
    action: str,
    code: str | None = None,
    binding_proven: bool = False,
    browser_code: str | None = None,
) -> Call[Redemption]:
    """Uses a link, or says why not."""
    values = {
        "secret": arguments.secret("secret", secret),
        "action": arguments.text("action", action),
        "binding_proven": arguments.flag("binding_proven", binding_proven),
    } | _given(
        code=(arguments.sent, code),
        browser_code=(arguments.sent, browser_code),
    )
    columns = "verdict::pg_catalog.text, token, subject_id"
    return Call(*_function("redeem", values, columns=columns), _redemption)


def renew_link(*, secret: bytes, action: str) -> Call[None]:
    """Mails another link in place of a token's, if its subject may still have one."""
    values = {
        "secret": arguments.secret("secret", secret),
        "action": arguments.text("action", action),
    }
    return Call(*_function("renew_link", values), lambda _row: None)


def browser_code(binding: bytes) -> Call[str]:
    """The five digits that the browser shows that has this binding."""
    values = {"binding": arguments.binding("binding", binding)}
    return Call(*_function("browser_code", values), lambda row: cast("str", row[0]))


def cancel(token: int) -> Call[bool]:
    """Ends a token that can still be used."""
    values = {"token": arguments.token("token", token)}
    return Call(*_function("cancel", values), lambda row: cast("bool", row[0]))


def cancel_subject(subject_id: Subject, *, only_proofs: bool = False) -> Call[int]:
    """Ends the tokens of a subject, or those alone that prove its address."""
    values = {
        "subject_id": arguments.subject("subject_id", subject_id),
        "only_proofs": arguments.flag("only_proofs", only_proofs),
    }
    return Call(*_function("cancel_subject", values), _number)


def recheck(subject_id: Subject) -> Call[int]:
    """Has the mails looked at again that wait for their subject to be eligible."""
    values = {"subject_id": arguments.subject("subject_id", subject_id)}
    return Call(*_function("recheck", values), _number)


def _given(**optional: tuple[Callable[[str, object], str], object]) -> dict[str, str]:
    """What is there of the optional arguments, each with how it is written."""
    return {
        name: write(name, value) for name, (write, value) in optional.items() if value is not None
    }


def _function(
    name: str, values: dict[str, str], *, columns: str = "*"
) -> tuple[str, tuple[str, ...]]:
    """A statement that names what it gives, so that the rest has the defaults of the function."""
    given = ", ".join(f"{parameter} => {_converted(parameter)}" for parameter in values)
    # Values are parameters; all else is of this file.
    statement = f"SELECT {columns} FROM {{schema}}.{name}({given})"  # noqa: S608
    return statement, tuple(values.values())


def _converted(parameter: str) -> str:
    name = TYPES.get(parameter, "text")
    if name == "bytea":
        return "pg_catalog.decode(%s::pg_catalog.text, 'hex')"
    return f"%s::pg_catalog.{name}"


def _number(row: Sequence[object]) -> int:
    return cast("int", row[0])


def _redemption(row: Sequence[object]) -> Redemption:
    verdict, token, subject_id = row
    return Redemption(
        verdict=cast("Verdict", verdict),
        token=cast("int | None", token),
        subject_id=cast("str | None", subject_id),
    )

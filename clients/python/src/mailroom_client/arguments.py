"""What the functions of the database take, and how each value is written for the server.

All values are sent as texts that the server converts, so that every driver sends the same.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import NotRequired, TypedDict
from uuid import UUID

_TRACEPARENT = re.compile("00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")

Subject = str | int | UUID
"""The key of a row of your own table; it is sent as text."""


class Mail(TypedDict):
    """A mail with a link, or a notice."""

    action: str
    """One of `mailroom.actions`, such as `activate` or `recover`."""
    recipient_email: str
    recipient_name: NotRequired[str | None]
    subject_id: NotRequired[Subject | None]
    """Whose token it is."""
    payload: NotRequired[object]
    """For the sender's template, as JSON. It is not signed."""
    language: NotRequired[str | None]
    """A tag such as `de` or `pt-BR`."""
    deliver_at: NotRequired[datetime | None]
    """When it is sent, at most a year from now; with a time zone."""
    idempotency_key: NotRequired[str | None]
    """A second call with this key and the same mail answers the first token and sends nothing."""
    binding: NotRequired[bytes | None]
    """The 16 bytes of the browser that the link is for."""
    notice_recipient: NotRequired[str | None]
    """Who is told that the link was used, such as the old address where it changes the address."""
    traceparent: NotRequired[str | None]
    """The trace that it belongs to (W3C Trace Context); what is none is ignored."""


class Request(TypedDict):
    """What somebody asks for who says who they are; for accounts of Mailroom's own."""

    email_or_login: str
    action: str
    cooldown: NotRequired[timedelta | None]
    """The shortest time between two mails for one account; that of the action."""
    at_most: NotRequired[int | None]
    """The most mails within `per`; 5."""
    per: NotRequired[timedelta | None]
    """An hour."""
    binding: NotRequired[bytes | None]
    traceparent: NotRequired[str | None]


def text(name: str, value: object) -> str:
    """A text of the application's."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {kind(value)}")
    if not value or not sendable(value):
        raise ValueError(f"{name} must be a text without NUL and without lone surrogates")
    return value


def sent(name: str, value: object) -> str:
    """A text that a visitor sent, which may be anything.

    What cannot be sent becomes a character that is no code.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {kind(value)}")
    return value if sendable(value) else "\N{REPLACEMENT CHARACTER}"


def subject(name: str, value: object) -> str:
    """The key of a row, as text."""
    if isinstance(value, UUID) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    return text(name, value)


def token(name: str, value: object) -> str:
    """The number that `enqueue` answers."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, as enqueue answers it, not {kind(value)}")
    if not 0 < value < 2**63:
        raise ValueError(f"{name} is no number of a token")
    return str(value)


def secret(name: str, value: object) -> str:
    """The 32 bytes of a verified link."""
    return _octets(name, value, 32)


def binding(name: str, value: object) -> str:
    """The 16 bytes of a browser."""
    return _octets(name, value, 16)


def _octets(name: str, value: object, length: int) -> str:
    """So many bytes, as hexadecimal digits."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"{name} must be bytes, not {kind(value)}")
    given = bytes(value)
    if len(given) != length:
        raise ValueError(f"{name} must be {length} bytes, not {len(given)}")
    return given.hex()


def flag(name: str, value: object) -> str:
    """`true` or `false`."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, not {kind(value)}")
    return "true" if value else "false"


def count(name: str, value: object) -> str:
    """A whole number from 1."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {kind(value)}")
    if not 1 <= value < 2**31:
        raise ValueError(f"{name} must be a whole number from 1")
    return str(value)


def moment(name: str, value: object) -> str:
    """A time that is the same everywhere."""
    if not isinstance(value, datetime):
        raise TypeError(f"{name} must be a datetime, not {kind(value)}")
    if value.utcoffset() is None:
        raise ValueError(f"{name} must have a time zone")
    return value.isoformat()


def span(name: str, value: object) -> str:
    """A time that is not negative."""
    if not isinstance(value, timedelta):
        raise TypeError(f"{name} must be a timedelta, not {kind(value)}")
    if value < timedelta():
        raise ValueError(f"{name} must not be negative")
    return f"{value // timedelta(microseconds=1)} microseconds"


def document(name: str, value: object) -> str:
    """A value as JSON."""
    try:
        # Other characters than those of ASCII are escaped, a lone surrogate too, which the server
        # refuses by itself.
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        # What cannot be written may be a secret.
        raise ValueError(f"{name} cannot be written as JSON") from None


def traceparent(value: object) -> str | None:
    """The trace that a mail belongs to.

    What is none is ignored: a caller whose tracing is broken still gets its mail.
    """
    return value if isinstance(value, str) and _TRACEPARENT.fullmatch(value) else None


def sendable(value: str) -> bool:
    """Whether PostgreSQL has such a text."""
    return not any(each == "\0" or "\ud800" <= each <= "\udfff" for each in value)


def kind(value: object) -> str:
    """What a message may say of a value, which can be a secret."""
    return "None" if value is None else type(value).__name__

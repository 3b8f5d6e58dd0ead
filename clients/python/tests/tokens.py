"""What the database keeps of tokens, read as its owner, who may."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    import psycopg


class Token(NamedTuple):
    """A token as it waits in the queue."""

    secret: bytes
    code: str | None


def waiting(connection: psycopg.Connection, token: int) -> Token | None:
    """What its mail would say; nothing if there is none."""
    query = b"SELECT secret, code FROM mailroom.queue WHERE token = %s"
    row = connection.execute(query, (token,)).fetchone()
    return Token(*cast("tuple[bytes, str | None]", row)) if row else None


def demanded(connection: psycopg.Connection, token: int) -> Token:
    """The same of a mail that must be there."""
    found = waiting(connection, token)
    assert found is not None
    return found

"""The functions of the database on connections of psycopg 3."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from mailroom_client import calls
from mailroom_client.schema import DEFAULT, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psycopg import AsyncConnection, Connection

    from mailroom_client.arguments import Mail, Request, Subject
    from mailroom_client.calls import Call, Redemption

Answer = TypeVar("Answer")


class Functions(ABC):
    """The functions of the database in the transaction that is open, which you commit.

    What the database refuses is the error of the driver, with its SQLSTATE.
    """

    def __init__(self, *, schema: str = DEFAULT) -> None:
        self._schema = quoted(schema)

    def enqueue(self, **mail: Unpack[Mail]) -> int:
        """Make a token and queue its mail; return the token's number. It limits nothing."""
        return self._run(calls.enqueue(**mail))

    def request(self, **asked: Unpack[Request]) -> None:
        """Make a token for an account of Mailroom's own, if there is one that may have it.

        Return nothing in every case.
        """
        return self._run(calls.request(**asked))

    def redeem(
        self,
        *,
        secret: bytes,
        action: str,
        code: str | None = None,
        binding_proven: bool = False,
        browser_code: str | None = None,
    ) -> Redemption:
        """Use a link, or say why not. `secret` is the 32 bytes of the verified link."""
        call = calls.redeem(
            secret=secret,
            action=action,
            code=code,
            binding_proven=binding_proven,
            browser_code=browser_code,
        )
        return self._run(call)

    def renew_link(self, *, secret: bytes, action: str) -> None:
        """Mail another link in place of this one, if its subject may still have one.

        Return nothing in every case. `secret` is the 32 bytes of the verified link, which may have
        expired or been used.
        """
        return self._run(calls.renew_link(secret=secret, action=action))

    def browser_code(self, binding: bytes) -> str:
        """Return the five digits that the browser shows that has this binding."""
        return self._run(calls.browser_code(binding))

    def cancel(self, token: int) -> bool:
        """End a token that can still be used; return whether it could."""
        return self._run(calls.cancel(token))

    def cancel_subject(self, subject_id: Subject, *, only_proofs: bool = False) -> int:
        """End the tokens of a subject, or those alone that prove its address; return how many."""
        return self._run(calls.cancel_subject(subject_id, only_proofs=only_proofs))

    def recheck(self, subject_id: Subject) -> int:
        """Have the mails looked at again that wait for their subject; return how many."""
        return self._run(calls.recheck(subject_id))

    @abstractmethod
    def _run(self, call: Call[Answer]) -> Answer:
        """Run the statement in the transaction that is open."""


class Mailroom(Functions):
    """The functions on a connection of psycopg 3, in its transaction."""

    def __init__(self, connection: Connection[Any], *, schema: str = DEFAULT) -> None:
        super().__init__(schema=schema)
        self._connection = connection

    def _run(self, call: Call[Answer]) -> Answer:
        with self._connection.cursor(row_factory=_plain) as cursor:
            cursor.execute(_statement(call, self._schema), call.values)
            return call.read(_only(cursor.fetchone()))


class AsyncMailroom:
    """The functions on an asynchronous connection of psycopg 3, in its transaction."""

    def __init__(self, connection: AsyncConnection[Any], *, schema: str = DEFAULT) -> None:
        self._connection = connection
        self._schema = quoted(schema)

    async def enqueue(self, **mail: Unpack[Mail]) -> int:
        """Make a token and queue its mail; return the token's number. It limits nothing."""
        return await self._run(calls.enqueue(**mail))

    async def request(self, **asked: Unpack[Request]) -> None:
        """Make a token for an account of Mailroom's own, if there is one that may have it.

        Return nothing in every case.
        """
        return await self._run(calls.request(**asked))

    async def redeem(
        self,
        *,
        secret: bytes,
        action: str,
        code: str | None = None,
        binding_proven: bool = False,
        browser_code: str | None = None,
    ) -> Redemption:
        """Use a link, or say why not. `secret` is the 32 bytes of the verified link."""
        call = calls.redeem(
            secret=secret,
            action=action,
            code=code,
            binding_proven=binding_proven,
            browser_code=browser_code,
        )
        return await self._run(call)

    async def renew_link(self, *, secret: bytes, action: str) -> None:
        """Mail another link in place of this one, if its subject may still have one.

        Return nothing in every case. `secret` is the 32 bytes of the verified link, which may have
        expired or been used.
        """
        return await self._run(calls.renew_link(secret=secret, action=action))

    async def browser_code(self, binding: bytes) -> str:
        """Return the five digits that the browser shows that has this binding."""
        return await self._run(calls.browser_code(binding))

    async def cancel(self, token: int) -> bool:
        """End a token that can still be used; return whether it could."""
        return await self._run(calls.cancel(token))

    async def cancel_subject(self, subject_id: Subject, *, only_proofs: bool = False) -> int:
        """End the tokens of a subject, or those alone that prove its address; return how many."""
        return await self._run(calls.cancel_subject(subject_id, only_proofs=only_proofs))

    async def recheck(self, subject_id: Subject) -> int:
        """Have the mails looked at again that wait for their subject; return how many."""
        return await self._run(calls.recheck(subject_id))

    async def _run(self, call: Call[Answer]) -> Answer:
        async with self._connection.cursor(row_factory=_plain) as cursor:
            await cursor.execute(_statement(call, self._schema), call.values)
            return call.read(_only(await cursor.fetchone()))


def _statement(call: Call[Any], quoted_schema: str) -> bytes:
    # As bytes: a text that was put together is none of psycopg's literals.
    return call.statement.format(schema=quoted_schema).encode()


def _plain(_cursor: object) -> Callable[[Sequence[object]], tuple[object, ...]]:
    """Rows by place, whatever the connection makes of rows."""
    return tuple


def _only(row: Sequence[object] | None) -> Sequence[object]:
    if row is None:
        raise RuntimeError("a function of the database has answered no row")
    return row

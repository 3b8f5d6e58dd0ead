"""The functions of the database in Django's transactions.

Under `transaction.atomic` a mail belongs to the block; outside of it each call is a transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections

from mailroom_client.mailroom import Functions
from mailroom_client.schema import DEFAULT

if TYPE_CHECKING:
    from mailroom_client.calls import Call

Answer = TypeVar("Answer")


class Mailroom(Functions):
    """The functions on a connection of Django's, which each thread and task has of its own."""

    def __init__(self, using: str = DEFAULT_DB_ALIAS, *, schema: str = DEFAULT) -> None:
        super().__init__(schema=schema)
        self._using = using

    def _run(self, call: Call[Answer]) -> Answer:
        connection = connections[self._using]
        connection.ensure_connection()
        # Not by cursor(): under DEBUG that keeps the values of each statement, secrets and codes
        # among them, logs them, and shows them on the page of an error.
        with connection.make_cursor(connection.create_cursor()) as cursor:
            cursor.execute(call.statement.format(schema=self._schema), call.values)
            return call.read(cursor.fetchone())

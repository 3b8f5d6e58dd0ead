"""The functions in Django's transactions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import django
import pytest
from django.conf import settings

from tokens import demanded, waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from mailroom_client.django import Mailroom

ADA = "ada@example.test"


@pytest.fixture(scope="module")
def mailroom(database: str) -> Iterator[Mailroom]:
    settings.configure(
        DEBUG=True,
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": database,
                "HOST": os.environ["PGHOST"],
                "PORT": os.environ["PGPORT"],
                "USER": os.environ["PGUSER"],
            }
        },
    )
    django.setup()
    from django.db import connections

    from mailroom_client.django import Mailroom

    yield Mailroom()
    connections.close_all()


def test_a_mail_belongs_to_the_atomic_block(
    mailroom: Mailroom, connection: psycopg.Connection
) -> None:
    from django.db import transaction

    class ChangedMindError(Exception):
        pass

    token = 0
    with pytest.raises(ChangedMindError), transaction.atomic():
        token = mailroom.enqueue(action="activate", recipient_email=ADA)
        raise ChangedMindError
    assert waiting(connection, token) is None
    connection.rollback()
    with transaction.atomic():
        token = mailroom.enqueue(action="activate", recipient_email=ADA)
        assert waiting(connection, token) is None
        connection.rollback()
    assert waiting(connection, token) is not None


def test_outside_of_a_block_each_call_is_committed(
    mailroom: Mailroom, connection: psycopg.Connection
) -> None:
    token = mailroom.enqueue(action="recover", recipient_email=ADA, subject_id=3)
    secret, code = demanded(connection, token)
    connection.rollback()
    assert mailroom.redeem(secret=secret, action="recover", code=code).subject_id == "3"


def test_what_the_database_refuses_is_djangos_error_and_breaks_the_block(
    mailroom: Mailroom,
) -> None:
    from django.db import DatabaseError, transaction

    with transaction.atomic():
        with pytest.raises(DatabaseError), transaction.atomic():
            mailroom.enqueue(action="no_such_action", recipient_email=ADA)
        # The inner block was a savepoint.
        assert mailroom.cancel(2**62) is False


def test_debug_keeps_neither_secret_nor_code(
    mailroom: Mailroom, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    from django.db import connection as own
    from django.db import reset_queries

    caplog.set_level("DEBUG")
    token = mailroom.enqueue(action="recover", recipient_email=ADA, subject_id=3)
    secret, code = demanded(connection, token)
    reset_queries()
    mailroom.redeem(secret=secret, action="recover", code=code)
    said = repr(own.queries) + caplog.text
    assert secret.hex() not in said
    assert str(code) not in said

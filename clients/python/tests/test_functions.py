"""What each function does, against the real database."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.rows import dict_row

from mailroom_client import Mailroom, Redemption
from tokens import demanded, waiting

if TYPE_CHECKING:
    from collections.abc import Callable

ADA = "ada@example.test"
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_mail_is_queued_in_the_transaction_of_the_connection(
    connect: Callable[[], psycopg.Connection],
) -> None:
    own, other = connect(), connect()
    token = Mailroom(own).enqueue(action="activate", recipient_email=ADA, subject_id="1")
    assert waiting(other, token) is None
    own.rollback()
    assert waiting(own, token) is None
    token = Mailroom(own).enqueue(action="activate", recipient_email=ADA, subject_id="1")
    own.commit()
    other.rollback()
    assert waiting(other, token) is not None


@pytest.mark.parametrize(
    "traceparent",
    ["", "00-no", TRACEPARENT.upper(), TRACEPARENT + "\n", "\0", "\ud800", "x" * 10_000, 7, b""],
)
def test_what_is_no_traceparent_is_ignored(
    connection: psycopg.Connection, traceparent: object
) -> None:
    mailroom = Mailroom(connection)
    mail = {"action": "activate", "recipient_email": ADA, "traceparent": traceparent}
    token = mailroom.enqueue(**mail)  # type: ignore[arg-type]
    query = b"SELECT traceparent FROM mailroom.issued_tokens WHERE id = %s"
    assert connection.execute(query, (token,)).fetchone() == (None,)


def test_all_that_can_be_said_of_a_mail_arrives(connection: psycopg.Connection) -> None:
    due = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    token = Mailroom(connection).enqueue(
        action="recover",
        recipient_email=ADA,
        recipient_name="Ada, née Byron \N{SNOWMAN} 100%s {}",
        subject_id=7,
        payload={"plan": "pro", "seats": [1, 2], "quote": "'; --", "bell": "\a"},
        language="pt-BR",
        deliver_at=due,
        idempotency_key="a key",
        binding=b"\0" * 16,
        notice_recipient="old@example.test",
        traceparent=TRACEPARENT,
    )
    query = b"""SELECT recipient_name, subject_id, payload, language, binding, notice_recipient,
        traceparent
        FROM mailroom.issued_tokens JOIN mailroom.payloads ON token = id WHERE id = %s"""
    assert connection.execute(query, (token,)).fetchone() == (
        "Ada, née Byron \N{SNOWMAN} 100%s {}",
        "7",
        {"plan": "pro", "seats": [1, 2], "quote": "'; --", "bell": "\a"},
        "pt-BR",
        b"\0" * 16,
        "old@example.test",
        TRACEPARENT,
    )
    # The due times of mails differ by their numbers, as microseconds.
    query = b"SELECT date_trunc('second', due_at) FROM mailroom.queue WHERE token = %s"
    assert connection.execute(query, (token,)).fetchone() == (due,)


def test_one_idempotency_key_makes_one_token(connection: psycopg.Connection) -> None:
    key = str(uuid.uuid4())
    mailroom = Mailroom(connection)
    one, two = (
        mailroom.enqueue(action="activate", recipient_email=ADA, idempotency_key=key)
        for _ in range(2)
    )
    assert one == two


def test_a_link_works_once_and_its_code_counts(connection: psycopg.Connection) -> None:
    mailroom = Mailroom(connection)
    token = mailroom.enqueue(action="recover", recipient_email=ADA, subject_id="9")
    secret, code = demanded(connection, token)
    assert code is not None
    wrong = "00000" if code != "00000" else "11111"
    for sent, verdict in [(wrong, "wrong_code"), ("\0", "wrong_code"), ("\ud800", "wrong_code")]:
        redemption = mailroom.redeem(secret=secret, action="recover", code=sent)
        assert (redemption.verdict, redemption.token, redemption.subject_id) == (
            verdict,
            None,
            None,
        )
    redemption = mailroom.redeem(secret=secret, action="recover", code=code)
    assert redemption == Redemption("ok", token, "9")
    assert mailroom.redeem(secret=secret, action="recover", code=code).verdict == "used"
    assert mailroom.redeem(secret=b"\1" * 32, action="recover").verdict == "unknown"


def test_rows_are_read_whatever_the_connection_makes_of_them(database: str) -> None:
    with psycopg.connect(dbname=database, row_factory=dict_row) as connection:
        mailroom = Mailroom(connection)
        token = mailroom.enqueue(action="activate", recipient_email=ADA)
        assert isinstance(token, int)
        assert mailroom.cancel(token) is True


def test_what_is_cancelled_cannot_be_used(connection: psycopg.Connection) -> None:
    mailroom = Mailroom(connection)
    token = mailroom.enqueue(action="activate", recipient_email=ADA)
    secret = demanded(connection, token).secret
    assert mailroom.cancel(token) is True
    assert mailroom.cancel(token) is False
    assert mailroom.redeem(secret=secret, action="activate").verdict == "expired"


def test_all_tokens_of_a_subject_are_cancelled_or_those_that_prove_its_address(
    connection: psycopg.Connection,
) -> None:
    mailroom = Mailroom(connection)
    subject = uuid.uuid4()
    for action in ("activate", "sign_in"):
        mailroom.enqueue(action=action, recipient_email=ADA, subject_id=subject)
    proofs = mailroom.cancel_subject(subject, only_proofs=True)
    assert proofs + mailroom.cancel_subject(subject) == 2
    assert mailroom.cancel_subject(subject) == 0
    assert mailroom.recheck(subject) == 0


PEOPLE = b"""
    CREATE FUNCTION public.mailed(subject_ids text[], is_redemption boolean)
    RETURNS TABLE (subject_id text, email text, name text)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'SELECT id, ''ada@example.test'', NULL::text FROM unnest($1) AS id WHERE id = ''renew''';
    UPDATE mailroom.actions SET eligibility = 'public.mailed(text[], boolean)', cooldown = '0'
    WHERE name = 'recover'"""


def test_a_link_that_was_used_is_renewed_and_none_that_nobody_has(
    connection: psycopg.Connection,
) -> None:
    connection.execute(PEOPLE)
    mailroom = Mailroom(connection)
    token = mailroom.enqueue(action="recover", recipient_email=ADA, subject_id="renew")
    secret, code = demanded(connection, token)
    assert mailroom.redeem(secret=secret, action="recover", code=code).verdict == "ok"
    # The recovery has a notice of its own.
    count = (
        b"SELECT count(*) FROM mailroom.issued_tokens WHERE subject_id = 'renew' AND action = "
        b"(SELECT number FROM mailroom.actions WHERE name = 'recover')"
    )
    for wanted, made in [(b"\1" * 32, 1), (secret, 2)]:
        mailroom.renew_link(secret=wanted, action="recover")
        assert connection.execute(count).fetchone() == (made,)
    connection.rollback()


def test_a_browser_has_five_digits(connection: psycopg.Connection) -> None:
    mailroom = Mailroom(connection)
    code = mailroom.browser_code(uuid.uuid4().bytes)
    assert len(code) == 5
    assert code.isdigit()


def test_a_request_answers_nothing_whether_there_is_an_account_or_not(
    database_with_accounts: str,
) -> None:
    with psycopg.connect(dbname=database_with_accounts) as connection:
        insert = b"INSERT INTO accounts (email, login, status) VALUES (%s, 'ada', 'active')"
        connection.execute(insert, (ADA,))
        mailroom = Mailroom(connection)
        count = b"SELECT count(*) FROM tokens"
        before = connection.execute(count).fetchone()
        for who in ("nobody@example.test", "\0"):
            mailroom.request(email_or_login=who, action="recover")
        assert connection.execute(count).fetchone() == before
        for _ in range(2):
            mailroom.request(
                email_or_login="ada",
                action="recover",
                cooldown=timedelta(minutes=1),
                at_most=3,
                per=timedelta(days=1),
            )
        assert connection.execute(count).fetchone() != before
        connection.rollback()


def test_what_the_database_refuses_is_the_drivers_error_with_its_state(
    connection: psycopg.Connection,
) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        Mailroom(connection).enqueue(action="no_such_action", recipient_email=ADA)
    # The transaction has failed, as after every error, and says so.
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        Mailroom(connection).enqueue(action="activate", recipient_email=ADA)


def test_another_schema_is_named(connection: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.InvalidSchemaName):
        Mailroom(connection, schema="elsewhere").cancel(1)
    for name in ("", "a.b", 'a"b', "a%s", "a{}", "a" * 64, None):
        with pytest.raises(ValueError, match="schema must be a name"):
            Mailroom(connection, schema=name)  # type: ignore[arg-type]

"""What the README shows, executed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

import mailroom_client
from tokens import demanded

if TYPE_CHECKING:
    import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_a_registration_with_its_mail_and_a_link_that_activates(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDATABASE", database)
    registration, _, activation = EXAMPLES
    with psycopg.connect() as connection:
        connection.execute(
            b"CREATE TABLE users (id bigserial, email text, active boolean DEFAULT false)"
        )
    names: dict[str, Any] = {}
    exec(registration + activation, names)
    with psycopg.connect() as connection:
        query = b"""SELECT id FROM mailroom.issued_tokens
            WHERE subject_id = (SELECT max(id)::text FROM users) ORDER BY id DESC LIMIT 1"""
        row = connection.execute(query).fetchone()
        assert row is not None
        secret = demanded(connection, row[0]).secret
        assert names["activate"](connection, secret) == "ok"
        assert names["activate"](connection, secret) == "used"
        assert connection.execute(b"SELECT active FROM users").fetchall() == [(True,)]


def test_the_table_names_every_function() -> None:
    named = set(re.findall(r"^\| `(\w+)\(", README, re.MULTILINE))
    functions = {name for name in dir(mailroom_client.Mailroom) if not name.startswith("_")}
    assert named == functions

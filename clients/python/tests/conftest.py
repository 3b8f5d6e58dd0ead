"""Databases with the schema, on the server that libpq's variables name.

`MAILROOM_TEST_PROGRAM` is the program that migrates them.
"""

from __future__ import annotations

import os
import subprocess
import uuid
from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _pytest.terminal import TerminalReporter


def _migrated(*options: str) -> Iterator[str]:
    name = f"mailroom_python_{uuid.uuid4().hex}"
    with psycopg.connect("", autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}".encode())
        subprocess.run(
            [os.environ["MAILROOM_TEST_PROGRAM"], "migrate", "up", *options],
            env=os.environ | {"MAILROOM_DATABASE_URL": f"postgresql:///{name}?{_parameters()}"},
            check=True,
            capture_output=True,
        )
        yield name
        server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def _parameters() -> str:
    return "&".join(f"{key}={os.environ[f'PG{key.upper()}']}" for key in ("host", "port", "user"))


@pytest.fixture(scope="session")
def database() -> Iterator[str]:
    """The name of a database without accounts, as for a table of one's own."""
    yield from _migrated("--without-accounts")


@pytest.fixture(scope="session")
def database_with_accounts() -> Iterator[str]:
    """The name of one that has Mailroom's own accounts."""
    yield from _migrated()


@pytest.fixture
def connect(database: str) -> Iterator[Callable[[], psycopg.Connection]]:
    """Makes connections that end with the test."""
    made: list[psycopg.Connection] = []

    def one() -> psycopg.Connection:
        made.append(psycopg.connect(dbname=database))
        return made[-1]

    yield one
    for each in made:
        each.close()


@pytest.fixture
def connection(connect: Callable[[], psycopg.Connection]) -> psycopg.Connection:
    """A connection to the database without accounts."""
    return connect()


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Counts as Rust's tests are counted, for whoever adds up both."""
    numbers = {
        kind: len(terminalreporter.stats.get(kind, [])) for kind in ("passed", "failed", "error")
    }
    failed = numbers["failed"] + numbers["error"]
    verdict = "FAILED" if failed else "ok"
    terminalreporter.write_line(
        f"test result: {verdict}. {numbers['passed']} passed; {failed} failed"
    )

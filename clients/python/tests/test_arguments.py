"""What no function takes, and what the message says of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from mailroom_client import calls

MAIL: dict[str, Any] = {"action": "recover", "recipient_email": "ada@example.test"}
LINK: dict[str, Any] = {"action": "recover", "secret": b"s" * 32}
# A naive time is the fault that is wanted.
NAIVE = datetime(2026, 1, 1)


@pytest.mark.parametrize(
    ("argument", "fault"),
    [
        ({"recipient_email": None}, "recipient_email must be a str, not None"),
        ({"recipient_email": b"ada@example.test"}, "recipient_email must be a str, not bytes"),
        ({"recipient_email": ""}, "recipient_email must be a text"),
        ({"recipient_email": "a\0b"}, "recipient_email must be a text without NUL"),
        ({"action": "\ud800"}, "action must be a text without NUL and without lone"),
        ({"subject_id": True}, "subject_id must be a str, not bool"),
        ({"subject_id": 1.0}, "subject_id must be a str, not float"),
        ({"payload": float("nan")}, "payload cannot be written as JSON"),
        ({"payload": {"secret": object()}}, "payload cannot be written as JSON"),
        ({"deliver_at": NAIVE}, "deliver_at must have a time zone"),
        ({"deliver_at": "tomorrow"}, "deliver_at must be a datetime, not str"),
        ({"binding": b"short"}, "binding must be 16 bytes, not 5"),
        ({"binding": "0" * 16}, "binding must be bytes, not str"),
        ({"binding": memoryview(b"0" * 17)}, "binding must be 16 bytes, not 17"),
    ],
)
def test_a_mail_with_a_wrong_part_is_refused(argument: dict[str, Any], fault: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{fault}"):
        calls.enqueue(**(MAIL | argument))


@pytest.mark.parametrize(
    ("argument", "fault"),
    [
        ({"secret": b"s" * 31}, "secret must be 32 bytes, not 31"),
        ({"secret": "s" * 32}, "secret must be bytes, not str"),
        ({"code": 12345}, "code must be a str, not int"),
        ({"browser_code": b"12345"}, "browser_code must be a str, not bytes"),
        ({"binding_proven": 1}, "binding_proven must be a bool, not int"),
        ({"binding_proven": None}, "binding_proven must be a bool, not None"),
    ],
)
def test_a_link_with_a_wrong_part_is_refused(argument: dict[str, Any], fault: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{fault}"):
        calls.redeem(**(LINK | argument))


@pytest.mark.parametrize("token", [0, -1, 2**63, True, "1", 1.0, None])
def test_a_token_is_what_enqueue_answers(token: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^token "):
        calls.cancel(token)


@pytest.mark.parametrize(
    "limit",
    [{"at_most": 0}, {"at_most": True}, {"at_most": 2**31}, {"per": 60}, {"per": -timedelta(1)}],
)
def test_limits_of_requests_are_counts_and_spans(limit: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^(at_most|per) must"):
        calls.request(email_or_login="ada", action="recover", **limit)


def test_no_message_and_no_cause_holds_a_value() -> None:
    with pytest.raises(ValueError, match="JSON") as raised:
        calls.enqueue(**(MAIL | {"payload": {"hunter2": {1, 2}}}))
    assert "hunter2" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


def test_names_that_are_no_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="recipient"):
        calls.enqueue(action="recover", recipient="ada@example.test")  # type: ignore[call-arg]


def test_a_payload_of_any_depth_is_written_or_refused() -> None:
    deep: object = None
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match=r"^payload cannot be written as JSON"):
        calls.enqueue(**(MAIL | {"payload": deep}))

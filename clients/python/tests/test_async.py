"""The same functions on an asynchronous connection."""

from __future__ import annotations

import asyncio
import uuid

import psycopg

from mailroom_client import AsyncMailroom, Mailroom, Redemption


def test_every_function_answers_as_that_of_the_other_class(database: str) -> None:
    async def used() -> tuple[Redemption, bool, int, int, str]:
        async with await psycopg.AsyncConnection.connect(dbname=database) as connection:
            mailroom = AsyncMailroom(connection)
            token = await mailroom.enqueue(
                action="activate", recipient_email="ada@example.test", subject_id="async"
            )
            query = b"SELECT secret FROM mailroom.queue WHERE token = %s"
            row = await (await connection.execute(query, (token,))).fetchone()
            assert row is not None
            redemption = await mailroom.redeem(secret=row[0], action="activate")
            assert redemption.token == token
            # An action that there is none of, as those that are here have no predicate.
            await mailroom.renew_link(secret=row[0], action="nothing")
            return (
                redemption,
                await mailroom.cancel(token),
                await mailroom.cancel_subject("async"),
                await mailroom.recheck("async"),
                await mailroom.browser_code(uuid.uuid4().bytes),
            )

    redemption, cancelled, subjects, rechecked, code = asyncio.run(used())
    assert (redemption.verdict, redemption.subject_id) == ("ok", "async")
    assert (cancelled, subjects, rechecked, len(code)) == (False, 0, 0, 5)


def test_both_classes_have_the_same_functions() -> None:
    def public(owner: type) -> set[str]:
        return {name for name in dir(owner) if not name.startswith("_")}

    assert public(Mailroom) == public(AsyncMailroom)

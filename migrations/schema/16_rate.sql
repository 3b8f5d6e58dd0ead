-- How many tokens a day all collectors together may claim.

-- A rate is shared by what these sequences say, which are never counted up. Sequences have no
-- versions: what is set is seen at once and not taken back with the transaction, and nothing grows
-- under an old snapshot.
CREATE SEQUENCE mailroom.rate_spent_until MINVALUE 0 START 0;

COMMENT ON SEQUENCE mailroom.rate_spent_until IS
    'Not counted up: the time from which the next token may be claimed at a rate, in microseconds '
    'since the Unix epoch.';

CREATE SEQUENCE mailroom.rate_in_use MINVALUE 0 START 0;

COMMENT ON SEQUENCE mailroom.rate_in_use IS
    'Not counted up: the rate by which that was reckoned, in tokens a day.';

-- Tokens are spaced evenly; those whose time has come are granted together, up to a second late. So
-- no stretch of time has more than the rate allows for it and a second, and one more. A claim that
-- fails after this, or a collector that dies with it, loses its places.
--
-- Locks: a table that only its owner may lock, so that no other role can stop the claims. An
-- exception releases it with its block, so that nobody waits for the claims and commits of others.
-- The log record of the sequence lies before that of the claim's commit, so that what was claimed
-- is spent also after a crash.
CREATE FUNCTION mailroom.reserve(
    per_day bigint, capacity integer, wanted integer, OUT granted integer, OUT wait bigint,
        OUT other_rate bigint
)
LANGUAGE plpgsql VOLATILE STRICT
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    second constant bigint := 1000000;
    day constant bigint := 86400 * second;
    moment bigint;
    spent_until bigint;
    next_at bigint;
BEGIN
    BEGIN
        LOCK TABLE mailroom.rate_lock IN EXCLUSIVE MODE;
        SELECT last_value INTO spent_until FROM mailroom.rate_spent_until;
        SELECT nullif(last_value, per_day) INTO other_rate FROM mailroom.rate_in_use;
        moment := floor(extract(epoch FROM mailroom.clock()) * second)::bigint;

        -- At most one token ahead: it is further only if the clock was set back, or by a lower
        -- rate. So the highest counts.
        next_at := least(greatest(spent_until, moment - second),
            moment + (day + per_day - 1) / per_day);
        granted := CASE WHEN next_at > moment THEN 0
            ELSE least(wanted, (moment - next_at) * per_day / day + 1) END;
        next_at := next_at + (granted * day + per_day - 1) / per_day;

        IF granted > 0 OR next_at < spent_until THEN
            PERFORM setval('mailroom.rate_spent_until', next_at);
        END IF;
        IF other_rate IS NOT NULL THEN
            PERFORM setval('mailroom.rate_in_use', per_day);
        END IF;

        RAISE EXCEPTION USING ERRCODE = 'MRATE';
    EXCEPTION WHEN SQLSTATE 'MRATE' THEN
        other_rate := nullif(other_rate, 0);
    END;

    -- Until what is claimed at once has its time, but no longer than a fifth of a second, or until
    -- the next one. Who waits for very long looks again now and then: the clock may be set.
    IF next_at > moment AND granted < greatest(wanted, 1) THEN
        wait := ceil(least(
            greatest(next_at - moment, least(second / 5,
                next_at - moment + (capacity - 1) * day / per_day)),
            60 * second
        ) / 1000.0);
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.reserve(bigint, integer, integer) IS
    'Reserves places of a rate: how many of those wanted may be claimed now; if there are fewer, '
    'or none where none is wanted yet, in how many milliseconds to come again, with capacity for '
    'so many; and the rate at which others claim, if it is another.';

-- A budget is what all collectors together may claim in a calendar month (UTC). One sequence has
-- the month and what was claimed in it, so that both are set at once and outlast a crash.
CREATE SEQUENCE mailroom.budget_spent MINVALUE 0 START 0;

COMMENT ON SEQUENCE mailroom.budget_spent IS
    'Not counted up: a month, as 12 times its year and its number from 0 to 11, times a million '
    'million; and how many tokens were claimed in it by collectors with a budget.';

CREATE SEQUENCE mailroom.budget_in_use MINVALUE 0 START 0;

COMMENT ON SEQUENCE mailroom.budget_in_use IS
    'Not counted up: the budget of the last claim, in tokens a month; 0 if it had none.';

CREATE FUNCTION mailroom.read_budget(moment timestamptz, OUT month bigint, OUT used bigint,
    OUT begins_at timestamptz, OUT ends_at timestamptz)
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT
        known.month,
        CASE WHEN known.spent_in >= known.current THEN known.spent ELSE 0::bigint END,
        first_day.at,
        (date_trunc('month', (first_day.at AT TIME ZONE 'UTC') + interval '32 days'))
            AT TIME ZONE 'UTC'
    FROM (
        SELECT
            stored.current, stored.spent_in, stored.spent,
            -- A clock that is set back over the end of a month goes on with the new one; one that
            -- was wrong by months does not count for months, but what it counted stays.
            CASE WHEN stored.spent_in = stored.current + 1 THEN stored.spent_in
                ELSE stored.current END AS month
        FROM (
            SELECT
                (12 * extract(year FROM read_budget.moment AT TIME ZONE 'UTC')
                    + extract(month FROM read_budget.moment AT TIME ZONE 'UTC') - 1)::bigint
                    AS current,
                last_value / 1000000000000 AS spent_in,
                last_value % 1000000000000 AS spent
            FROM mailroom.budget_spent
        ) AS stored
    ) AS known
    CROSS JOIN LATERAL (
        SELECT make_timestamptz((known.month / 12)::integer, (known.month % 12)::integer + 1, 1,
            0, 0, 0, 'UTC') AS at
    ) AS first_day;
END;

COMMENT ON FUNCTION mailroom.read_budget(timestamptz) IS
    'The month that a budget counts for, what was claimed in it, and when it begins and ends.';

-- Locks: as reserve() does, and for the same reasons. A claim that fails after this, or a collector
-- that dies with it, loses its places: more is never claimed than the budget allows.
CREATE FUNCTION mailroom.spend(
    budget bigint, wanted integer, OUT granted integer, OUT wait bigint, OUT remaining bigint
)
LANGUAGE plpgsql VOLATILE STRICT
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    moment timestamptz;
    known record;
BEGIN
    BEGIN
        LOCK TABLE mailroom.rate_lock IN EXCLUSIVE MODE;
        moment := mailroom.clock();
        known := mailroom.read_budget(moment);
        granted := greatest(least(wanted, budget - known.used), 0);
        remaining := greatest(budget - known.used - granted, 0);

        IF granted > 0 THEN
            PERFORM setval('mailroom.budget_spent',
                known.month * 1000000000000 + known.used + granted);
        END IF;
        IF (SELECT last_value FROM mailroom.budget_in_use) <> budget THEN
            PERFORM setval('mailroom.budget_in_use', budget);
        END IF;

        RAISE EXCEPTION USING ERRCODE = 'MRATE';
    EXCEPTION WHEN SQLSTATE 'MRATE' THEN
        -- Who waits for the next month looks again now and then: the clock may be set, or the
        -- budget be raised.
        IF remaining = 0 THEN
            wait := ceil(least(60000::numeric,
                greatest(1000 * extract(epoch FROM known.ends_at - moment), 1)));
        END IF;
    END;
END;
$$;

COMMENT ON FUNCTION mailroom.spend(bigint, integer) IS
    'Takes tokens from a budget, which is tokens a month: how many of those wanted may be claimed, '
    'how many are left then, and, if none is, in how many milliseconds to come again.';

CREATE FUNCTION mailroom.return_unspent(tokens bigint) RETURNS void
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    known record;
BEGIN
    BEGIN
        LOCK TABLE mailroom.rate_lock IN EXCLUSIVE MODE;
        known := mailroom.read_budget(mailroom.clock());
        IF tokens > 0 AND known.used > 0 THEN
            PERFORM setval('mailroom.budget_spent',
                known.month * 1000000000000 + greatest(known.used - tokens, 0));
        END IF;
        RAISE EXCEPTION USING ERRCODE = 'MRATE';
    EXCEPTION WHEN SQLSTATE 'MRATE' THEN
        NULL;
    END;
END;
$$;

COMMENT ON FUNCTION mailroom.return_unspent(bigint) IS
    'For collectors with a budget: so many of the tokens that were claimed were certainly given to '
    'no provider.';

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

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

-- At a rate, tokens are spaced evenly; those whose time has come are granted together, up to a
-- second late. So no stretch of time has more than the rate allows for it and a second, and one
-- more. Of what is left of a budget as many are granted as the rate allows, so that no place of
-- either is lost to the other. A claim that fails after this, or a collector that dies with it,
-- loses its places: more is never claimed than both allow.
--
-- Locks: a table that only its owner may lock, so that no other role can stop the claims. An
-- exception releases it with its block, so that nobody waits for the claims and commits of others.
-- Whoever wants nothing and changes nothing takes no lock: it only learns whether to come again.
-- The log records of the sequences lie before that of the claim's commit, so that what was claimed
-- is spent also after a crash.
CREATE FUNCTION mailroom.spend(
    per_day bigint, budget bigint, capacity integer, wanted bigint,
    OUT granted bigint, OUT wait bigint, OUT other_rate bigint, OUT other_budget bigint,
    OUT budget_left bigint
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    second constant bigint := 1000000;
    day constant bigint := 86400 * second;
    used_rate bigint := (SELECT last_value FROM mailroom.rate_in_use);
    used_budget bigint := (SELECT last_value FROM mailroom.budget_in_use);
    asked_at timestamptz := mailroom.clock();
    moment bigint;
    one bigint := (day + per_day - 1) / per_day;
    spent_until bigint;
    next_at bigint;
    by_rate bigint;
    month record;
BEGIN
    BEGIN
        moment := floor(extract(epoch FROM asked_at) * second)::bigint;
        SELECT last_value INTO spent_until FROM mailroom.rate_spent_until;
        IF wanted <> 0 OR used_rate <> per_day OR used_budget <> budget
            OR spent_until > moment + one
        THEN
            LOCK TABLE mailroom.rate_lock IN EXCLUSIVE MODE;
            asked_at := mailroom.clock();
            moment := floor(extract(epoch FROM asked_at) * second)::bigint;
            SELECT last_value INTO spent_until FROM mailroom.rate_spent_until;
            SELECT last_value INTO used_rate FROM mailroom.rate_in_use;
            SELECT last_value INTO used_budget FROM mailroom.budget_in_use;
        END IF;
        month := mailroom.read_budget(asked_at);
        granted := CASE WHEN wanted < 0 THEN greatest(wanted, -month.used) ELSE wanted END;

        IF per_day IS NOT NULL THEN
            -- At most one token ahead: it is further only if the clock was set back, or by a lower
            -- rate. So the highest counts.
            next_at := least(greatest(spent_until, moment - second), moment + one);
            by_rate := CASE WHEN next_at > moment THEN 0
                ELSE least(wanted, (moment - next_at) * per_day / day + 1) END;
            granted := least(granted, by_rate);
        END IF;

        IF budget IS NOT NULL THEN
            granted := least(granted, greatest(budget - month.used, 0));
            budget_left := greatest(budget - month.used - granted, 0);
            IF used_budget <> budget THEN
                other_budget := used_budget;
                PERFORM setval('mailroom.budget_in_use', budget);
            END IF;
        END IF;

        IF per_day IS NOT NULL THEN
            next_at := next_at + (granted * day + per_day - 1) / per_day;
            IF granted > 0 OR next_at < spent_until THEN
                PERFORM setval('mailroom.rate_spent_until', next_at);
            END IF;
            IF used_rate <> per_day THEN
                other_rate := nullif(used_rate, 0);
                PERFORM setval('mailroom.rate_in_use', per_day);
            END IF;
        END IF;

        IF granted < 0 OR budget IS NOT NULL AND granted > 0 THEN
            PERFORM setval('mailroom.budget_spent',
                month.month * 1000000000000 + month.used + granted);
        END IF;

        RAISE EXCEPTION USING ERRCODE = 'MRATE';
    EXCEPTION WHEN SQLSTATE 'MRATE' THEN
        NULL;
    END;

    -- Until what is claimed at once has its time, but no longer than a fifth of a second, or until
    -- the next one. Who waits for very long looks again now and then: the clock may be set.
    IF next_at > moment AND by_rate < greatest(wanted, 1) THEN
        wait := ceil(least(
            greatest(next_at - moment, least(second / 5,
                next_at - moment + (capacity - 1) * day / per_day)),
            60 * second
        ) / 1000.0);
    END IF;

    -- Who waits for the next month does the same: the budget may be raised, too.
    IF budget_left = 0 THEN
        wait := greatest(wait, ceil(least(60000::numeric,
            greatest(1000 * extract(epoch FROM month.ends_at - asked_at), 1)))::bigint);
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.spend(bigint, bigint, integer, bigint) IS
    'Takes tokens from a rate, which is tokens a day, and from a budget, which is tokens a month: '
    'how many of those wanted may be claimed now; if there are fewer, or none where none is wanted '
    'yet, in how many milliseconds to come again, with capacity for so many; the rate and the '
    'budget by which others claim, if they are others, and 0 for no budget; and what is left of '
    'the budget. A number below zero gives back to the month''s budget.';

CREATE FUNCTION mailroom.return_unspent(tokens bigint, claimed_within bigint) RETURNS void
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    -- What was claimed in another month is not given back to this one: its budget is over.
    IF tokens > 0 AND (
        SELECT begins_at <= mailroom.clock()
            - interval '1 millisecond' * claimed_within::double precision
        FROM mailroom.read_budget(mailroom.clock())
    ) THEN
        PERFORM mailroom.spend(NULL::bigint, NULL::bigint, 0, -tokens);
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.return_unspent(bigint, bigint) IS
    'For collectors with a budget: so many of the tokens that were claimed within so many '
    'milliseconds were certainly given to no provider.';

-- What collectors with metrics read of the database.

-- For dashboards, which ask every half a minute. Actions are looked up one by one, since a join
-- would read all tokens, and for the first ten thousand tokens of each place only: a long queue is
-- counted, and not split. Each place is read once for the counts, by nothing but an aggregate.
CREATE FUNCTION mailroom.measure() RETURNS TABLE (
    state text, action text, tokens bigint, oldest double precision
)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off
BEGIN ATOMIC
    WITH
    now AS MATERIALIZED (
        SELECT mailroom.clock() AS epoch
    ),
    queued AS NOT MATERIALIZED (
        SELECT
            queue.token,
            CASE
                WHEN queue.doubts > 0 THEN 'in_doubt'
                WHEN queue.deferrals > 0 THEN 'deferred'
                WHEN queue.due_at <= (SELECT epoch FROM now) THEN 'due'
                ELSE 'later'
            END AS state,
            CASE
                WHEN queue.deferrals > 0 THEN queue.put_off_at
                WHEN queue.due_at > (SELECT epoch FROM now)
                THEN coalesce(queue.waits_since, queue.put_off_at)
                ELSE coalesce(queue.waits_since, queue.due_at)
            END AS since
        FROM mailroom.queue
    ),
    given_up AS NOT MATERIALIZED (
        SELECT
            dead_letters.token,
            CASE WHEN dead_letters.is_suppressed THEN 'suppressed' ELSE 'dead' END AS state,
            dead_letters.died_at AS since
        FROM mailroom.dead_letters
    ),
    claimed AS NOT MATERIALIZED (
        SELECT leased.token, 'claimed' AS state, leases.claimed_at AS since
        FROM mailroom.leases
        CROSS JOIN LATERAL pg_catalog.unnest(leases.tokens) AS leased (token)
    ),
    -- As status() has handed_over_overdue_last_hour.
    overdue AS MATERIALIZED (
        SELECT floor(extract(epoch FROM now.epoch))::bigint - 300::bigint AS before FROM now
    ),
    away AS NOT MATERIALIZED (
        SELECT
            handed_over.token,
            CASE
                WHEN handed_over.expires_at <= (SELECT before FROM overdue)
                    AND handed_over.expires_at > (SELECT before FROM overdue) - 3600::bigint
                THEN 'overdue'
                ELSE 'handed_over'
            END AS state,
            handed_over.handed_over_at AS since
        FROM mailroom.handed_over
    ),
    counted AS (
        SELECT queued.state, count(*) AS tokens, min(queued.since) AS since
        FROM queued GROUP BY queued.state
        UNION ALL
        SELECT given_up.state, count(*), min(given_up.since) FROM given_up GROUP BY given_up.state
        UNION ALL
        SELECT claimed.state, count(*), min(claimed.since) FROM claimed GROUP BY claimed.state
        UNION ALL
        SELECT away.state, count(*), min(away.since) FROM away GROUP BY away.state
    ),
    split AS (
        SELECT place.state, actions.name AS action, count(*) AS tokens, min(place.since) AS since
        FROM (
            SELECT
                sampled.state, sampled.since,
                (
                    SELECT issued_tokens.action FROM mailroom.issued_tokens
                    WHERE issued_tokens.id = sampled.token
                ) AS action
            FROM (
                (SELECT token, state, since FROM queued LIMIT 10000)
                UNION ALL
                (SELECT token, state, since FROM given_up LIMIT 10000)
                UNION ALL
                (SELECT token, state, since FROM claimed LIMIT 10000)
                UNION ALL
                (SELECT token, state, since FROM away LIMIT 10000)
            ) AS sampled
            -- Looked up once for each.
            OFFSET 0
        ) AS place
        JOIN mailroom.actions ON actions.number = place.action
        GROUP BY place.state, actions.name
    ),
    told AS (
        SELECT split.state, split.action, split.tokens, split.since FROM split
        UNION ALL
        -- Of the rest the oldest is no younger than it is said to be.
        SELECT counted.state, '(others)', counted.tokens - coalesce(known.tokens, 0),
            counted.since
        FROM counted
        LEFT JOIN (
            SELECT split.state, sum(split.tokens)::bigint AS tokens FROM split GROUP BY split.state
        ) AS known USING (state)
        WHERE counted.tokens > coalesce(known.tokens, 0)
    )
    SELECT
        told.state,
        told.action,
        told.tokens,
        coalesce(
            greatest(extract(epoch FROM (SELECT epoch FROM now) - told.since), 0::numeric),
            0::numeric
        )::double precision
    FROM told;
END;

COMMENT ON FUNCTION mailroom.measure() IS
    'For collectors with metrics: how many tokens are due, to be sent later, deferred, in doubt, '
    'claimed, handed over, overdue, dead or suppressed, by the name of their action, and for how '
    'many seconds the oldest of them has been. Overdue: handed over, and expired without a verdict '
    'five minutes ago and no longer than an hour before that. Of more than ten thousand of a '
    'place, the action of the others is ''(others)'', and their oldest is that of the state.';

-- As spend() reckons.
CREATE FUNCTION mailroom.measure_rate(per_day bigint, OUT used bigint, OUT available bigint)
LANGUAGE plpgsql STABLE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    second constant bigint := 1000000;
    day constant bigint := 86400 * second;
    moment bigint := floor(extract(epoch FROM mailroom.clock()) * second)::bigint;
    next_at bigint;
BEGIN
    SELECT greatest(last_value, moment - second) INTO next_at FROM mailroom.rate_spent_until;
    available := CASE WHEN next_at > moment THEN 0
        ELSE (moment - next_at) * per_day / day + 1 END;
    used := per_day / 86400 + 1 - available;
END;
$$;

COMMENT ON FUNCTION mailroom.measure_rate(bigint) IS
    'For collectors with metrics: how many tokens of a rate, which is tokens a day, may be claimed '
    'at once, and how many of those that it ever allows at once are used.';

-- Where a month goes on as it has begun, what is left lasts for as long as it took to use as much.
CREATE FUNCTION mailroom.measure_budget(OUT allowed bigint, OUT used bigint, OUT available bigint,
    OUT ends_at timestamptz, OUT lasts_until timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    moment timestamptz := mailroom.clock();
    known record;
BEGIN
    known := mailroom.read_budget(moment);
    SELECT last_value INTO allowed FROM mailroom.budget_in_use;
    used := known.used;
    available := greatest(allowed - used, 0);
    ends_at := known.ends_at;
    IF used > 0 AND moment > known.begins_at THEN
        lasts_until := moment + least(
            (moment - known.begins_at) * (available::double precision / used::double precision),
            interval '1 year'
        );
        IF lasts_until >= ends_at THEN
            lasts_until := NULL;
        END IF;
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.measure_budget() IS
    'For collectors with metrics: the budget of the last claim, in tokens a calendar month (UTC), '
    '0 without; what was used of it and is left; when the month ends, and when nothing will be '
    'left before that if mails go on as in this month, or null.';

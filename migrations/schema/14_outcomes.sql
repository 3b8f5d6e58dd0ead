-- What an attempt ends with, and when a token that comes back of a lease is tried again.

-- The columns of a lease are arrays. Neither volatile nor with a SET clause, so that it is inlined:
-- given the row of a CTE, `ended::mailroom.leases`, not one that RETURNING has made a value of, all
-- of which a sort would copy for each token.
CREATE FUNCTION mailroom.leased_tokens(lease mailroom.leases)
    RETURNS TABLE (
        token bigint, attempt integer, failures smallint, priority smallint, secret bytea,
        code text, waits_since timestamptz, doubts smallint
    )
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT
        item.token, item.attempt, item.failures, item.priority, item.secret,
        item.code, item.waits_since, coalesce(item.doubts, 0::smallint)
    FROM ROWS FROM (
        unnest(lease.tokens),
        unnest(lease.attempts),
        unnest(lease.failures),
        unnest(lease.priorities),
        unnest(lease.secrets),
        unnest(lease.codes),
        unnest(lease.waits_since),
        unnest(lease.doubts)
    ) AS item (token, attempt, failures, priority, secret, code, waits_since, doubts);
END;

COMMENT ON FUNCTION mailroom.leased_tokens(mailroom.leases) IS
    'The tokens of a lease, a row each, with what the queue will need of those that come back.';

-- Doubling from the first pause up to a minute, or to a part of its life, up to an hour; between
-- half and all of that, so that what failed together does not come back together.
CREATE FUNCTION mailroom.pause_after(refusals bigint, first_pause bigint, lifetime double precision)
    RETURNS double precision
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN least(
    first_pause::double precision * power(2::double precision, refusals::double precision),
    greatest(
        first_pause::double precision,
        60000::double precision,
        least(lifetime * 1000::double precision / 24::double precision, 3600000::double precision)
    )
) * (0.5::double precision + random() / 2::double precision);

COMMENT ON FUNCTION mailroom.pause_after(bigint, bigint, double precision) IS
    'Pause in milliseconds after so many refusals; the first pause is in milliseconds, the '
    'lifetime in seconds.';

-- No longer than the token lives: what expires before its pause is over waits until then, so that
-- it is counted then.
CREATE FUNCTION mailroom.pause_before_retry(
    kind text,
    wait bigint,
    doubts smallint,
    refusals bigint,
    backoff bigint,
    lifetime double precision
) RETURNS double precision
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN CASE
    WHEN wait IS NOT NULL OR kind IN ('retry', 'failed', 'in_doubt') THEN least(
        lifetime * 1000::double precision,
        CASE
            WHEN kind = 'in_doubt' AND doubts = 1::smallint THEN 60000::double precision
            WHEN kind = 'in_doubt' THEN 300000::double precision
            -- Others come first. At least a thousandth of its life, so that a token of days is not
            -- tried all the time, but of that at most a minute: it may be the outage's fault, which
            -- can be over any moment.
            WHEN kind = 'unavailable' AND wait > 1000::bigint
                THEN greatest(wait::double precision, least(lifetime, 60000::double precision))
            -- As the sender wants it, within a day.
            WHEN wait IS NOT NULL THEN least(wait, 86400000::bigint)::double precision
            ELSE mailroom.pause_after(refusals, backoff, lifetime)
        END
    )
END;

COMMENT ON FUNCTION mailroom.pause_before_retry(text, bigint, smallint, bigint, bigint,
    double precision) IS
    'For how many milliseconds a token waits that comes back; null if it comes back to its place. '
    'wait, what the sender asked for, and backoff are in milliseconds, the lifetime in seconds.';

-- Stable, not immutable: as the cast of a text to an enumeration is, without which this would not
-- be inlined.
CREATE FUNCTION mailroom.outcome_of(
    kind text,
    failures smallint,
    doubts smallint,
    max_attempts integer,
    is_deleted boolean,
    is_open boolean
) RETURNS mailroom.outcome
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE
    WHEN kind IS NULL THEN 'sent'
    -- Nobody is to get it any more.
    WHEN is_deleted THEN 'cancelled'
    -- Who has used the link has the mail.
    WHEN kind = 'in_doubt' AND doubts >= 3::smallint AND NOT is_open THEN 'cancelled'
    WHEN kind = 'in_doubt' AND doubts >= 3::smallint THEN 'dead'
    WHEN kind = 'failed' AND failures::integer + 1 >= max_attempts THEN 'dead'
    WHEN kind = 'failed' THEN 'retry'
    WHEN kind = 'unknown_address' THEN 'dead'
    WHEN kind IN ('unavailable', 'untried') THEN 'unanswered'
    ELSE kind::mailroom.outcome
END;

COMMENT ON FUNCTION mailroom.outcome_of(text, smallint, smallint, integer, boolean, boolean) IS
    'How an attempt ended of which a collector says this. failures are those before it, doubts '
    'include it; a token is open that was neither used nor cancelled.';

CREATE FUNCTION mailroom.doubtful(reason text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 'may have been delivered' || coalesce(': ' || reason, '');

COMMENT ON FUNCTION mailroom.doubtful(text) IS
    'Why a token is given up of which nobody knows whether it was delivered.';

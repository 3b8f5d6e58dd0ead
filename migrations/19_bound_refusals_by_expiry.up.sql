-- Faults: whatever refuses a token counted as a fault of the token, so a mail server that was away for a minute killed the mails
-- of links that live a quarter of an hour; and nobody was told that a token was given up.
--
-- From here on a refusal counts only where the collector says so. What comes back because the whole sender is unavailable comes
-- back as if it had not been handed over, or after a pause that is no refusal; tokens that live long are tried again at most
-- once an hour. mailroom_exchange() answers which tokens were given up.
--
-- Locks: none.

BEGIN;

-- Settles batches of which not all tokens were sent; answers which tokens were given up, also when that is repeated. For mailroom_exchange(), which is
-- described there. Kinds of exceptions: 'dead'; 'refused', for now; 'failed', also for now, but only max_attempts times
-- ('error' says the same); 'unavailable', back to its place or after its wait, and no failure; 'unanswered'.
CREATE FUNCTION settle_exceptions(
    settled uuid[],
    exception_batches uuid[],
    exception_tokens bigint[],
    exception_kinds text[],
    exception_waits bigint[],
    exception_reasons text[],
    max_attempts integer,
    backoff bigint,
    too_late bigint
) RETURNS TABLE (batch uuid, token bigint, attempt integer)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom_clock();
BEGIN
    WITH
    gone AS (
        DELETE FROM leases WHERE batch = ANY (settled) RETURNING *
    ),
    exceptions AS (
        SELECT *
        FROM ROWS FROM (
            pg_catalog.unnest(exception_batches), pg_catalog.unnest(exception_tokens), pg_catalog.unnest(exception_kinds),
            pg_catalog.unnest(exception_waits), pg_catalog.unnest(exception_reasons)
        ) AS exception (batch, token, kind, wait, reason)
    ),
    items AS MATERIALIZED (
        SELECT
            gone.holder,
            gone.batch,
            gone.due_at,
            item.token,
            item.attempt,
            item.failures,
            item.priority,
            exceptions.kind,
            exceptions.wait,
            exceptions.reason,
            -- In seconds. What expires before its pause is over waits until then, so that it is counted then.
            (
                SELECT greatest(expires_at::double precision - too_late::double precision, 0::double precision)
                FROM tokens
                WHERE id = item.token AND exceptions.kind IS NOT NULL
            ) AS lifetime,
            -- Not the failures, which a refusal need not be. A pause stops growing long before twenty.
            (
                SELECT count(*)
                FROM (
                    SELECT
                    FROM handovers
                    WHERE token = item.token
                        AND outcome OPERATOR(pg_catalog.=) 'error'
                        AND exceptions.kind IN ('refused', 'failed', 'error')
                    LIMIT 20
                ) AS refusal
            ) AS refusals,
            CASE
                WHEN exceptions.kind IS NULL THEN 'sent'
                WHEN exceptions.kind IN ('failed', 'error') AND item.failures::integer + 1 >= max_attempts THEN 'dead'
                WHEN exceptions.kind IN ('refused', 'failed') THEN 'error'
                WHEN exceptions.kind = 'unavailable' THEN 'unanswered'
                ELSE exceptions.kind
            END AS outcome
        FROM gone
        CROSS JOIN LATERAL ROWS FROM (
            pg_catalog.unnest(gone.tokens), pg_catalog.unnest(gone.attempts), pg_catalog.unnest(gone.failures),
            pg_catalog.unnest(gone.priorities)
        ) AS item (token, attempt, failures, priority)
        LEFT JOIN exceptions ON exceptions.batch = gone.batch AND exceptions.token = item.token
    ),
    logged AS (
        INSERT INTO handovers (token, happened_at, holder, batch, attempt, outcome, reason)
        SELECT token, epoch, holder, batch, attempt, outcome::delivery_outcome, reason FROM items
    ),
    given_up AS (
        INSERT INTO dead (token, died_at, attempts, failures, priority, reason)
        SELECT token, epoch, attempt, least(failures::integer + 1, 32767)::smallint, priority, coalesce(reason, '')
        FROM items
        WHERE outcome = 'dead'
        ON CONFLICT DO NOTHING
    )
    INSERT INTO pending (token, due_at, attempts, failures, priority, refused_at)
    SELECT
        token,
        CASE
            -- To its place, which lies in the future only if the clock was set back.
            WHEN outcome = 'unanswered' AND wait IS NULL THEN least(due_at, mailroom_clock())
            ELSE epoch + interval '1 millisecond' * least(
                CASE
                    -- Others come first. At least a thousandth of its life, so that a token of days is not tried all the time,
                    -- but of that at most a minute: it may be the outage's fault, which can be over any moment.
                    WHEN outcome = 'unanswered' AND wait > 1000::bigint
                    THEN greatest(wait::double precision, least(lifetime, 60000::double precision))
                    -- As the sender wants it, within a day.
                    WHEN wait IS NOT NULL THEN least(wait, 86400000::bigint)::double precision
                    -- Doubling from the first pause up to a minute, or to a part of its life, up to an hour; between half
                    -- and all of that, so that what failed together does not come back together.
                    ELSE least(
                        backoff::double precision * power(2::double precision, refusals::double precision),
                        greatest(
                            backoff::double precision,
                            60000::double precision,
                            least(lifetime * 1000::double precision / 24::double precision, 3600000::double precision)
                        )
                    ) * (0.5::double precision + random() / 2::double precision)
                END,
                lifetime * 1000::double precision
            )
        END,
        attempt,
        CASE WHEN kind IN ('failed', 'error') THEN least(failures::integer + 1, 32767)::smallint ELSE failures END,
        priority,
        CASE WHEN outcome = 'error' OR wait IS NOT NULL THEN epoch END
    FROM items
    WHERE outcome IN ('error', 'unanswered')
    ON CONFLICT DO NOTHING;

    -- From the log, not from what was just done: where the connection broke before the answer, the same is settled again, and the
    -- leases are gone. A statement of its own, since only such a one sees what was committed while this waited for the leases.
    RETURN QUERY
    SELECT batch, token, attempt
    FROM handovers
    WHERE token = ANY (exception_tokens)
        AND batch = ANY (settled)
        AND outcome OPERATOR(pg_catalog.=) 'dead'
    ORDER BY batch, token;
END;
$$;

COMMENT ON FUNCTION settle_exceptions(uuid[], uuid[], bigint[], text[], bigint[], text[], integer, bigint, bigint) IS
    'Settles batches of which not all tokens were sent, and answers which tokens were given up.';

DO $$
DECLARE
    home name := (
        SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE pg_class.oid = 'tokens'::regclass
    );
    signature text := 'settle_exceptions(uuid[], uuid[], bigint[], text[], bigint[], text[], integer, bigint, bigint)';
BEGIN
    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', signature, home);
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', signature);
    EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = force_generic_plan', signature);
    EXECUTE format('ALTER FUNCTION %s SET enable_seqscan = off', signature);
    EXECUTE format('ALTER FUNCTION %s SET enable_bitmapscan = off', signature);
    EXECUTE format('ALTER FUNCTION %s SET enable_memoize = off', signature);
    EXECUTE format('ALTER FUNCTION %s SET jit = off', signature);
    -- It is called with the rights of that function, which may be another's: an upgrade can be made by a superuser.
    EXECUTE format(
        'ALTER FUNCTION %s OWNER TO %s', signature,
        (SELECT proowner::regrole FROM pg_proc WHERE oid = 'mailroom_exchange'::regproc)
    );
END;
$$;

-- Everything else in mailroom_exchange() stays as it is, with its owner, its rights and its settings.
DO $$
DECLARE
    definition text := pg_get_functiondef('mailroom_exchange'::regproc);
    branch integer := strpos(definition, '    ELSIF pg_catalog.cardinality(settled) > 0 THEN');
    rest integer := strpos(definition, E'\n    -- Nothing of them was sent, so that was no hand-over.');
BEGIN
    IF branch = 0 OR rest < branch THEN
        RAISE EXCEPTION 'mailroom_exchange is not as migration 15 made it';
    END IF;

    EXECUTE overlay(definition PLACING $branch$    ELSIF pg_catalog.cardinality(settled) > 0 THEN
        -- A token that is given up is answered with its attempt and without an action.
        RETURN QUERY
        SELECT
            given_up.batch, given_up.token, given_up.attempt, NULL::text, NULL::bytea, NULL::bytea, NULL::bytea, NULL::bytea,
            NULL::bigint, NULL::integer, NULL::integer, NULL::integer, NULL::integer, NULL::integer, NULL::timestamptz,
            NULL::timestamptz
        FROM settle_exceptions(
            settled, exception_batches, exception_tokens, exception_kinds, exception_waits, exception_reasons, max_attempts,
            backoff, too_late
        ) AS given_up;
    END IF;
$branch$ FROM branch FOR rest - branch);
END;
$$;

COMMENT ON COLUMN pending.failures IS
    'How many of these count towards the most that there may be: those that ended or silenced the sender, and refusals where'
    ' they are bounded.';
COMMENT ON COLUMN pending.refused_at IS
    'When it came back, if it waits for that reason; null for all others, which nothing but a clock that was set back keeps'
    ' waiting.';
COMMENT ON COLUMN leases.failures IS 'Of each token, as in pending.';
COMMENT ON COLUMN handovers.reason IS
    'What the sender said, for error and dead; for unanswered why the whole sender was unavailable, if it was.';

COMMIT;

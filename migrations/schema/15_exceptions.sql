-- Batches of which not all tokens were sent: what becomes of each token, and where it goes.

CREATE TYPE mailroom.settled_token AS (
    collector_id bigint,
    batch uuid,
    -- Of the lease.
    due_at timestamptz,
    token bigint,
    attempt integer,
    -- With this attempt, as the doubts.
    failures smallint,
    priority smallint,
    secret bytea,
    code text,
    waits_since timestamptz,
    doubts smallint,
    expires_at bigint,
    -- Whether its link is still good: otherwise its secret is not kept.
    is_usable boolean,
    kind text,
    outcome mailroom.outcome,
    reason text,
    -- As pause_before_retry() answers it.
    pause double precision
);

COMMENT ON TYPE mailroom.settled_token IS
    'A token whose lease has ended, and what becomes of it.';

-- Nothing is written of a batch whose lease is gone: it was settled, released or taken over.
CREATE FUNCTION mailroom.end_leases(
    settled uuid[],
    exception_batches uuid[],
    exception_tokens bigint[],
    exception_kinds text[],
    exception_waits bigint[],
    exception_reasons text[],
    max_attempts integer,
    backoff bigint,
    expiry_bound bigint
) RETURNS mailroom.settled_token[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_memoize = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    answer mailroom.settled_token[];
BEGIN
    WITH
    ended AS (
        DELETE FROM mailroom.leases WHERE batch = ANY (settled) RETURNING *
    ),
    exceptions AS (
        SELECT *
        FROM ROWS FROM (
            pg_catalog.unnest(exception_batches),
            pg_catalog.unnest(exception_tokens),
            pg_catalog.unnest(exception_kinds),
            pg_catalog.unnest(exception_waits),
            pg_catalog.unnest(exception_reasons)
        ) AS exception (batch, token, kind, wait, reason)
    ),
    attempts AS (
        SELECT
            ended.collector_id,
            ended.batch,
            ended.due_at,
            leased.*,
            least(
                leased.doubts + CASE WHEN exceptions.kind = 'in_doubt' THEN 1 ELSE 0 END, 32767
            )::smallint AS all_doubts,
            exceptions.kind,
            exceptions.wait,
            exceptions.reason
        FROM ended
        CROSS JOIN LATERAL mailroom.leased_tokens(ended::mailroom.leases) AS leased
        LEFT JOIN exceptions
            ON exceptions.batch = ended.batch AND exceptions.token = leased.token
    )
    SELECT array_agg(settled_token::mailroom.settled_token) INTO answer
    FROM (
        SELECT
            collector_id,
            batch,
            due_at,
            token,
            attempt,
            CASE
                WHEN kind IN ('failed', 'dead', 'unknown_address')
                    THEN least(failures::integer + 1, 32767)::smallint
                ELSE failures
            END AS failures,
            priority,
            secret,
            code,
            waits_since,
            all_doubts,
            known.expires_at,
            known.is_open AND known.expires_at > expiry_bound AS is_usable,
            kind,
            mailroom.outcome_of(
                kind, failures, all_doubts, max_attempts, known.expires_at IS NULL, known.is_open
            ) AS outcome,
            reason,
            mailroom.pause_before_retry(
                kind, wait, all_doubts, earlier.refusals, backoff, known.lifetime
            ) AS pause
        FROM attempts
        -- Of those that were sent nothing has to be known.
        LEFT JOIN LATERAL (
            SELECT
                expires_at,
                consumed_at IS NULL AND cancelled_at IS NULL AS is_open,
                greatest(
                    expires_at::double precision - expiry_bound::double precision,
                    0::double precision
                ) AS lifetime
            FROM mailroom.issued_tokens
            WHERE id = attempts.token AND attempts.kind IS NOT NULL
        ) AS known ON true
        -- Not the failures, which a refusal need not be. A pause stops growing long before twenty.
        CROSS JOIN LATERAL (
            SELECT count(*) AS refusals
            FROM (
                SELECT
                FROM mailroom.delivery_log
                WHERE tokens[1] = attempts.token
                    AND outcome = 'retry'
                    AND attempts.kind IN ('retry', 'failed')
                LIMIT 20
            ) AS refusal
        ) AS earlier
    ) AS settled_token;

    RETURN answer;
END;
$$;

COMMENT ON FUNCTION mailroom.end_leases(uuid[], uuid[], bigint[], text[], bigint[], text[],
    integer, bigint, bigint) IS
    'Deletes the leases of batches, and answers what becomes of each of their tokens.';

-- Settles batches of which not all tokens were sent; answers which tokens were given up, also when
-- that is repeated. A refusal counts only where the collector says so, and an outage of the whole
-- sender never does: it would kill the mails of links that live a quarter of an hour. Tokens that
-- live long are tried again at most once an hour.
--
-- Kinds of exceptions:
-- - 'retry', for now;
-- - 'failed', also for now, but only max_attempts times;
-- - 'dead';
-- - 'unknown_address': dead, and its address is suppressed if the collector has the right to do so;
-- - 'unavailable': back to its place or after its wait, and no failure, because the sender was
--   away;
-- - 'untried': after its wait, and no failure, because the sender was there and has not tried the
--   mail;
-- - 'unanswered': back to its place;
-- - 'in_doubt': nobody knows whether the provider has the mail, so it is repeated after one and
--   after five minutes, however often it is refused between, and the third doubt makes it a dead
--   letter that may have been delivered;
-- - 'handed_over': a broker has it, and its verdict comes later.
--
-- Locks: the leases, by name; rows of queue, dead_letters and handed_over, which are new; payloads,
-- of which it waits for none. In this order.
CREATE FUNCTION mailroom.settle_exceptions(
    settled uuid[],
    exception_batches uuid[],
    exception_tokens bigint[],
    exception_kinds text[],
    exception_waits bigint[],
    exception_reasons text[],
    max_attempts integer,
    backoff bigint,
    expiry_bound bigint
) RETURNS TABLE (batch uuid, token bigint, attempt integer)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_memoize = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom.clock();
    -- The collector's own right: it calls this with the rights of the owner.
    suppresses boolean := 'unknown_address' = ANY (exception_kinds)
        AND has_function_privilege(
            session_user, to_regprocedure('mailroom.suppress(text, text, text, text)'), 'EXECUTE'
        ) IS TRUE;
    ended mailroom.settled_token[];
BEGIN
    -- As in settle(), which knows afterwards whether it has written anything.
    PERFORM pg_logical_emit_message(true, 'mailroom', '');

    ended := mailroom.end_leases(
        settled, exception_batches, exception_tokens, exception_kinds, exception_waits,
        exception_reasons, max_attempts, backoff, expiry_bound
    );

    INSERT INTO mailroom.queue (
        token, due_at, attempts, failures, priority, put_off_at, secret, code, waits_since, doubts
    )
    SELECT
        token,
        CASE
            -- To its place, which lies in the future only if the clock was set back.
            WHEN pause IS NULL THEN least(due_at, mailroom.clock())
            ELSE epoch + interval '1 millisecond' * pause
        END,
        attempt,
        failures,
        priority,
        CASE WHEN pause IS NOT NULL THEN epoch END,
        secret,
        code,
        -- A refusal of its own is no outage: it waits anew. What is in doubt waits until it is
        -- known or listed.
        CASE WHEN kind <> 'retry' OR doubts > 0 THEN coalesce(waits_since, due_at) END,
        doubts
    FROM pg_catalog.unnest(ended)
    WHERE outcome IN ('retry', 'unanswered', 'in_doubt')
    ON CONFLICT DO NOTHING;

    -- Most settlements make no such rows, and even reading the tokens takes time.
    IF exception_kinds && ARRAY['dead', 'unknown_address', 'failed', 'in_doubt'] THEN
        INSERT INTO mailroom.dead_letters (
            token, died_at, expires_at, attempts, failures, priority, secret, code, reason, doubts,
            is_suppressed
        )
        SELECT
            token,
            epoch,
            expires_at,
            attempt,
            failures,
            priority,
            CASE WHEN is_usable THEN secret END,
            CASE WHEN is_usable THEN code END,
            CASE kind WHEN 'in_doubt' THEN mailroom.doubtful(reason) ELSE coalesce(reason, '') END,
            doubts,
            kind = 'unknown_address' AND suppresses
        FROM pg_catalog.unnest(ended)
        WHERE outcome = 'dead'
        ON CONFLICT DO NOTHING;
    END IF;

    IF 'handed_over' = ANY (exception_kinds) THEN
        INSERT INTO mailroom.handed_over (
            token, handed_over_at, expires_at, attempts, failures, priority, secret, code, doubts
        )
        SELECT
            token,
            epoch,
            expires_at,
            attempt,
            failures,
            priority,
            CASE WHEN is_usable THEN secret END,
            CASE WHEN is_usable THEN code END,
            doubts
        FROM pg_catalog.unnest(ended)
        WHERE outcome = 'handed_over'
        ON CONFLICT DO NOTHING;
    END IF;

    PERFORM mailroom.delete_payloads(ARRAY(
        SELECT token FROM pg_catalog.unnest(ended) WHERE outcome IN ('sent', 'cancelled')
    ));

    INSERT INTO mailroom.delivery_log (
        tokens, happened_at, collector_id, batch, attempt, outcome, reason
    )
    SELECT
        ARRAY[token],
        epoch,
        collector_id,
        batch,
        attempt,
        outcome,
        CASE
            -- Nothing new is kept of it.
            WHEN kind IS NOT NULL AND expires_at IS NULL THEN 'it was deleted'
            WHEN kind = 'in_doubt' AND outcome = 'dead' THEN mailroom.doubtful(reason)
            ELSE reason
        END
    FROM pg_catalog.unnest(ended);

    -- No mail waits for an application that suppresses the same address and does not commit, nor
    -- for another collector. Where that one rolls back, the next mail is refused again.
    IF suppresses THEN
        PERFORM mailroom.try_suppress(known.recipient_email, log.reason)
        FROM ROWS FROM (
            pg_catalog.unnest(exception_tokens), pg_catalog.unnest(exception_kinds)
        ) AS exception (token, kind)
        JOIN mailroom.delivery_log AS log
            ON tokens[1] = exception.token AND outcome = 'dead' AND log.batch = ANY (settled)
        JOIN mailroom.issued_tokens AS known ON known.id = exception.token
        WHERE exception.kind = 'unknown_address' AND mailroom.is_address(known.recipient_email);
    END IF;

    -- From the log, not from what was just done: where the connection broke before the answer, the
    -- same is settled again, and the leases are gone. A statement of its own, since only such a one
    -- sees what was committed while this waited for the leases.
    RETURN QUERY
    SELECT batch, tokens[1], attempt
    FROM mailroom.delivery_log
    WHERE tokens[1] = ANY (exception_tokens) AND batch = ANY (settled) AND outcome = 'dead'
    ORDER BY 1, 2;
END;
$$;

COMMENT ON FUNCTION mailroom.settle_exceptions(uuid[], uuid[], bigint[], text[], bigint[], text[],
    integer, bigint, bigint) IS
    'Settles batches of which not all tokens were sent, and answers which tokens were given up.';

-- Collectors settle batches, of which they say what became of each token, or release them. Whoever
-- has a collector's password reads what is due and nothing else: neither addresses nor secrets of
-- used tokens.

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

-- Addresses are kept as a hash with a key that only the owner reads: whoever reads a receipt can
-- neither read the address nor try addresses.
CREATE FUNCTION mailroom.address_hash(address text, key bytea) RETURNS bytea
LANGUAGE sql STABLE
RETURN substr(sha256(key || mailroom.to_utf8(mailroom.normal_address(address))), 1, 16);

COMMENT ON FUNCTION mailroom.address_hash(text, bytea) IS
    'By which receipts know an address: 16 bytes, with the key of the installation.';

-- The leases are locked, so that a settlement that is repeated while the first one commits
-- keeps nothing twice.
CREATE FUNCTION mailroom.keep_receipts(
    receipt_batches uuid[],
    receipt_tokens bigint[],
    receipt_providers text[],
    receipt_message_ids text[],
    receipt_answers text[]
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    key bytea := (SELECT address_key FROM mailroom.installation);
BEGIN
    WITH
    held AS MATERIALIZED (
        SELECT batch, tokens, attempts FROM mailroom.leases
            WHERE batch = ANY (receipt_batches) FOR UPDATE
    ),
    -- By itself, so that it is joined by hashes and not read again for each receipt of its batch.
    item AS MATERIALIZED (
        SELECT held.batch, each.token, each.attempt
        FROM held
        CROSS JOIN LATERAL ROWS FROM (
            pg_catalog.unnest(held.tokens), pg_catalog.unnest(held.attempts)
        ) AS each (token, attempt)
    )
    INSERT INTO mailroom.receipts (
        token, attempt, accepted_at, action, provider, message_id, answer, address_hash
    )
    SELECT
        item.token, item.attempt, mailroom.clock(), known.action, receipt.provider,
        left(receipt.message_id, 200), left(receipt.answer, 200),
        mailroom.address_hash(known.recipient_email, key)
    FROM item
    JOIN ROWS FROM (
        pg_catalog.unnest(receipt_batches), pg_catalog.unnest(receipt_tokens),
        pg_catalog.unnest(receipt_providers), pg_catalog.unnest(receipt_message_ids),
        pg_catalog.unnest(receipt_answers)
    ) AS receipt (batch, token, provider, message_id, answer)
        ON receipt.batch = item.batch AND receipt.token = item.token
    -- Of a token that was deleted meanwhile none is kept: its subject may have been forgotten.
    -- OFFSET 0 keeps this a look-up by primary key for each row.
    CROSS JOIN LATERAL (
        SELECT action, recipient_email FROM mailroom.issued_tokens WHERE id = item.token OFFSET 0
    ) AS known;
END;
$$;

COMMENT ON FUNCTION mailroom.keep_receipts(uuid[], bigint[], text[], text[], text[]) IS
    'Keeps what providers said of mails that they accepted, of batches that are still leased.';

-- Locks: rows of leases by name, which waits for somebody who takes one over.
CREATE FUNCTION mailroom.settle(
    settled uuid[],
    exception_batches uuid[],
    exception_tokens bigint[],
    exception_kinds text[],
    exception_waits bigint[],
    exception_reasons text[],
    max_attempts integer,
    backoff bigint,
    min_lifetime bigint,
    receipt_batches uuid[] DEFAULT '{}',
    receipt_tokens bigint[] DEFAULT '{}',
    receipt_providers text[] DEFAULT '{}',
    receipt_message_ids text[] DEFAULT '{}',
    receipt_answers text[] DEFAULT '{}'
) RETURNS TABLE (batch uuid, token bigint, attempt integer)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    -- First, while the leases are there.
    IF pg_catalog.cardinality(receipt_tokens) > 0 THEN
        PERFORM mailroom.keep_receipts(
            receipt_batches, receipt_tokens, receipt_providers, receipt_message_ids, receipt_answers
        );
    END IF;

    IF pg_catalog.cardinality(exception_tokens) > 0 THEN
        RETURN QUERY
        SELECT *
        FROM mailroom.settle_exceptions(
            settled, exception_batches, exception_tokens, exception_kinds, exception_waits,
                exception_reasons, max_attempts,
            backoff, mailroom.expiry_bound(mailroom.clock(), min_lifetime)
        );
        RETURN;
    END IF;

    WITH gone AS (
        DELETE FROM mailroom.leases WHERE batch = ANY (settled) RETURNING *
    ),
    done AS (
        DELETE FROM mailroom.payloads
        WHERE token = ANY (ARRAY(
            SELECT token FROM mailroom.payloads
            WHERE token = ANY (ARRAY(SELECT pg_catalog.unnest(tokens) FROM gone WHERE has_payloads))
            FOR UPDATE SKIP LOCKED
        ))
    )
    INSERT INTO mailroom.delivery_log (tokens, happened_at, collector_id, batch, attempt, outcome)
    SELECT
        pg_catalog.array_agg(item.token), mailroom.clock(), collector_id, batch, item.attempt,
        'sent'
    FROM gone
    CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(tokens), pg_catalog.unnest(attempts))
        AS item (token, attempt)
    GROUP BY collector_id, batch, item.attempt, item.token / 256;

    -- A repeated settlement waits for what the first one waits for, such as a standby: a commit
    -- that has written nothing does not.
    IF NOT FOUND THEN
        PERFORM pg_logical_emit_message(true, 'mailroom', '');
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.settle(
    uuid[], uuid[], bigint[], text[], bigint[], text[], integer, bigint, bigint,
    uuid[], bigint[], text[], text[], text[]
) IS
    'For collectors: records what became of batches, and what providers said of accepted mails; '
    'answers which tokens were given up by that. Spans are milliseconds, '
    'but for min_lifetime, in seconds.';

CREATE FUNCTION mailroom.expiry_bound(epoch timestamptz, min_lifetime bigint) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN floor(extract(epoch FROM epoch))::bigint + greatest(min_lifetime, 1::bigint) - 1::bigint;

COMMENT ON FUNCTION mailroom.expiry_bound(timestamptz, bigint) IS
    'Tokens that expire at this second or before are not sent any more.';

-- Nothing of them was sent, so that was no delivery attempt.
CREATE FUNCTION mailroom.release(collector bigint, released uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    WITH ended AS (
        DELETE FROM mailroom.leases
        WHERE batch = ANY (released) AND collector_id = collector
        RETURNING *
    )
    INSERT INTO mailroom.queue (
        token, due_at, attempts, failures, priority, secret, code, waits_since, doubts
    )
    SELECT
        leased.token, least(ended.due_at, mailroom.clock()), leased.attempt - 1,
        leased.failures, leased.priority, leased.secret, leased.code, leased.waits_since,
        leased.doubts
    FROM ended
    CROSS JOIN LATERAL mailroom.leased_tokens(ended::mailroom.leases) AS leased
    ON CONFLICT DO NOTHING;
END;
$$;

COMMENT ON FUNCTION mailroom.release(bigint, uuid[]) IS
    'For collectors: gives batches back of which nothing was sent.';

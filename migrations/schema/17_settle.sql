-- Collectors settle batches, of which they say what became of each token, or release them. Whoever
-- has a collector's password reads what is due and nothing else: neither addresses nor secrets of
-- used tokens.

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

-- Where each token stands, and what happened to it.

CREATE VIEW mailroom.delivery_attempts AS
SELECT
    item.token, log.happened_at, log.collector_id, log.batch, log.attempt, log.outcome, log.reason
FROM mailroom.delivery_log AS log
CROSS JOIN LATERAL pg_catalog.unnest(log.tokens) AS item (token);

COMMENT ON VIEW mailroom.delivery_attempts IS
    'The delivery log with a row for each token. Of a single token, history(token) has the same '
    'without reading all of the log.';

CREATE FUNCTION mailroom.history(token bigint) RETURNS TABLE (
    happened_at timestamptz, collector_id bigint, batch uuid, attempt integer,
    outcome mailroom.outcome,
        reason text
)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
BEGIN ATOMIC
    SELECT log.happened_at, log.collector_id, log.batch, log.attempt, log.outcome, log.reason
    FROM mailroom.delivery_log AS log
    WHERE log.tokens[1] / 256 = history.token / 256 AND history.token = ANY (log.tokens)
    ORDER BY log.happened_at, log.attempt;
END;

COMMENT ON FUNCTION mailroom.history(bigint) IS
    'For operators: the delivery attempts of a token, the oldest first.';

-- Joined, not looked up for each token: a search of all leases for every token takes seconds where
-- there are many of both.
CREATE VIEW mailroom.deliveries AS
SELECT
    tokens.id AS token,
    place.state,
    place.attempts,
    place.since,
    place.collector_id,
    collectors.name AS collector,
    place.batch,
    place.reason,
    place.doubts
FROM mailroom.issued_tokens AS tokens
LEFT JOIN mailroom.queue ON queue.token = tokens.id
LEFT JOIN mailroom.dead_letters AS dead ON dead.token = tokens.id
LEFT JOIN mailroom.handed_over ON handed_over.token = tokens.id
LEFT JOIN (
    SELECT
        item.token, item.attempt, leases.claimed_at, leases.collector_id, leases.batch,
        coalesce(item.doubts, 0::smallint) AS doubts
    FROM mailroom.leases
    CROSS JOIN LATERAL ROWS FROM (
        pg_catalog.unnest(leases.tokens), pg_catalog.unnest(leases.attempts),
        pg_catalog.unnest(leases.doubts)
    ) AS item (token, attempt, doubts)
) AS leased ON leased.token = tokens.id
LEFT JOIN LATERAL (
    SELECT log.outcome::text, log.attempt, log.happened_at, log.collector_id, log.batch, log.reason
    FROM mailroom.delivery_log AS log
    WHERE log.tokens[1] / 256 = tokens.id / 256 AND tokens.id = ANY (log.tokens)
    ORDER BY log.happened_at DESC, log.attempt DESC
    LIMIT 1
) AS last ON true
CROSS JOIN mailroom.installation
CROSS JOIN LATERAL (
    SELECT
        'queued' AS state, queue.attempts, queue.due_at AS since, NULL::bigint AS collector_id,
        NULL::uuid AS batch, NULL::text AS reason, queue.doubts
    WHERE queue.deferrals = 0
    UNION ALL
    SELECT
        'deferred', queue.attempts, queue.put_off_at, NULL, NULL,
        'its subject is not eligible for it, or collectors cannot sign it', queue.doubts
    WHERE queue.deferrals > 0
    UNION ALL
    SELECT 'dead', dead.attempts, dead.died_at, NULL, NULL, dead.reason, dead.doubts
    WHERE dead.token IS NOT NULL
    UNION ALL
    SELECT
        'leased', leased.attempt, leased.claimed_at, leased.collector_id, leased.batch, NULL,
        leased.doubts
    WHERE leased.token IS NOT NULL
    UNION ALL
    SELECT
        'handed_over', handed_over.attempts, handed_over.handed_over_at, NULL, NULL, NULL,
        handed_over.doubts
    WHERE handed_over.token IS NOT NULL
    UNION ALL
    SELECT
        last.outcome, last.attempt, last.happened_at, last.collector_id, last.batch, last.reason,
        NULL::smallint
    WHERE last.outcome IS NOT NULL
    UNION ALL
    SELECT 'unrecorded', NULL, NULL, NULL, NULL, 'the log begins at ' || log_complete_since, NULL
    LIMIT 1
) AS place
LEFT JOIN mailroom.collectors ON collectors.collector_id = place.collector_id;

COMMENT ON VIEW mailroom.deliveries IS
    'Where a token stands: queued, deferred, leased, handed_over to a broker, or dead; or how it '
    'ended: sent, expired or cancelled; or unrecorded, if that was before the log began. With the '
    'number of delivery attempts, since when, by whom and why, and, until it has ended, how many '
    'attempts ended in doubt: nobody knows whether the mail was accepted. For tokens that are '
    'named: to look for a state reads all of them, where the view waiting reads what has that '
    'state.';

-- A branch for each place, so that a condition on state leaves the others out; and the row of a
-- token by a look-up: a join could read all of them.
CREATE VIEW mailroom.waiting AS
SELECT
    place.token,
    place.state,
    known.action,
    place.attempts,
    place.doubts,
    place.since,
    known.expires_at,
    place.collector_id,
    (SELECT name FROM mailroom.collectors WHERE collectors.collector_id = place.collector_id)
        AS collector,
    place.batch,
    place.reason
FROM (
    SELECT
        token, 'queued' AS state, attempts, doubts, due_at AS since, NULL::bigint AS collector_id,
        NULL::uuid AS batch, NULL::text AS reason
    FROM mailroom.queue
    WHERE deferrals = 0
    UNION ALL
    SELECT
        token, 'deferred', attempts, doubts, put_off_at, NULL, NULL,
        'its subject is not eligible for it, or collectors cannot sign it'
    FROM mailroom.queue
    WHERE deferrals > 0
    UNION ALL
    SELECT
        item.token, 'leased', item.attempt, coalesce(item.doubts, 0::smallint), claimed_at,
        collector_id, batch, NULL
    FROM mailroom.leases
    CROSS JOIN LATERAL ROWS FROM (
        pg_catalog.unnest(tokens), pg_catalog.unnest(leases.attempts),
        pg_catalog.unnest(leases.doubts)
    ) AS item (token, attempt, doubts)
    UNION ALL
    SELECT token, 'handed_over', attempts, doubts, handed_over_at, NULL, NULL, NULL
    FROM mailroom.handed_over
    UNION ALL
    SELECT token, 'dead', attempts, doubts, died_at, NULL, NULL, reason
    FROM mailroom.dead_letters
) AS place
LEFT JOIN LATERAL (
    SELECT
        (SELECT name FROM mailroom.actions WHERE number = tokens.action) AS action,
        to_timestamp(tokens.expires_at::double precision) AS expires_at
    FROM mailroom.issued_tokens AS tokens
    WHERE tokens.id = place.token
    OFFSET 0
) AS known ON true;

COMMENT ON VIEW mailroom.waiting IS
    'What is not done: each token that is queued, deferred, leased, handed_over or dead, as in '
    'deliveries, with the name of its action. It reads what has the state that is asked for, so '
    'that all dead letters can be listed, however many tokens there are.';

-- What is known of a token, each by a look-up, also where its row is pruned. Within a second, which
-- is what the token's own times have, things come in the order in which they can happen.
CREATE FUNCTION mailroom.trace_token(traced bigint, epoch timestamptz) RETURNS TABLE (
    token bigint, happened_at timestamptz, event text, attempt integer, action text, collector text,
    provider text, message_id text, detail text
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH
    known AS (
        SELECT
            tokens.*,
            -- A notice has none.
            NOT EXISTS (
                SELECT FROM mailroom.actions WHERE number = tokens.action AND path IS NULL
            ) AS has_link
        FROM mailroom.issued_tokens AS tokens
        WHERE id = traced
    ),
    told (
        rank, happened_at, event, attempt, action, collector_id, provider, message_id, detail
    ) AS (
        SELECT
            0, to_timestamp(created_at), 'enqueued', NULL::integer, action, NULL::bigint,
                NULL::text, NULL::text,
            CASE WHEN has_link THEN 'its link ends at ' ELSE 'it can be sent until ' END
                || to_char(to_timestamp(expires_at) AT TIME ZONE 'UTC',
                    'YYYY-MM-DD"T"HH24:MI:SS"Z"')
                || coalesce(', in trace ' || substr(traceparent, 4, 32), '')
        FROM known
        UNION ALL
        SELECT 1, suppressed_at, 'suppressed', NULL, NULL, NULL, suppression.provider, NULL,
            'the address gets no mails (' || reason || ')' || coalesce(': ' || suppression.detail,
            '')
        FROM known
        JOIN mailroom.suppressions AS suppression ON address =
            mailroom.normal_address(recipient_email)
        UNION ALL
        SELECT 1, accepted_at, 'accepted', attempt, action, NULL, provider, message_id, answer
        FROM mailroom.receipts
        WHERE token = traced
        UNION ALL
        SELECT 1, log.happened_at, outcome::text, attempt, NULL, collector_id, NULL, NULL, reason
        FROM mailroom.delivery_log AS log
        WHERE tokens[1] / 256 = traced / 256 AND traced = ANY (tokens)
        UNION ALL
        SELECT 2, to_timestamp(consumed_at), 'redeemed', NULL, NULL, NULL, NULL, NULL,
            'its link was used'
        FROM known
        WHERE consumed_at IS NOT NULL
        UNION ALL
        SELECT 2, to_timestamp(cancelled_at), 'ended', NULL, NULL, NULL, NULL, NULL,
            CASE WHEN has_link THEN 'its link was cancelled' ELSE 'it was cancelled' END
        FROM known
        WHERE cancelled_at IS NOT NULL
        UNION ALL
        SELECT 2, to_timestamp(expires_at), 'ended', NULL, NULL, NULL, NULL, NULL,
            'its link is no longer valid'
        FROM known
        WHERE has_link AND consumed_at IS NULL AND cancelled_at IS NULL
            AND to_timestamp(expires_at) <= epoch
        UNION ALL
        SELECT
            3, greatest(due_at, epoch), 'waiting', attempts, NULL, NULL, NULL, NULL,
            CASE
                WHEN deferrals > 0 THEN
                    'its subject is not eligible for it, or collectors cannot sign it'
                WHEN due_at > epoch THEN 'it is due then'
                ELSE 'it is due'
            END
        FROM mailroom.queue
        WHERE token = traced
        UNION ALL
        SELECT 3, claimed_at, 'claimed', item.attempt, NULL, collector_id, NULL, NULL,
            'a collector has it'
        FROM mailroom.leases
        CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(tokens), pg_catalog.unnest(attempts))
            AS item (token, attempt)
        WHERE traced = ANY (tokens) AND item.token = traced
    )
    SELECT
        traced, told.happened_at, told.event, told.attempt, actions.name, collectors.name,
            told.provider,
        told.message_id, told.detail
    FROM told
    LEFT JOIN mailroom.actions ON number = told.action
    LEFT JOIN mailroom.collectors USING (collector_id)
    ORDER BY date_trunc('second', told.happened_at), rank, told.happened_at, told.attempt,
        told.event;
END;
$$;

COMMENT ON FUNCTION mailroom.trace_token(bigint, timestamptz) IS
    'What is known of a token, in order of time.';

-- Tokens of an address are looked for by their receipts, which outlive them, and in all tokens
-- there are: no index has their addresses, which every registration would have to write.
CREATE FUNCTION mailroom.trace(tokens bigint[] DEFAULT NULL, address text DEFAULT NULL)
    RETURNS TABLE (
    token bigint, happened_at timestamptz, event text, attempt integer, action text, collector text,
    provider text, message_id text, detail text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    normal text := mailroom.normal_address(trace.address);
    traced bigint[] := coalesce(trace.tokens, '{}');
BEGIN
    IF normal IS NOT NULL THEN
        traced := traced || ARRAY(
            SELECT token FROM mailroom.receipts
            WHERE address_hash = mailroom.address_hash(
                trace.address, (SELECT address_key FROM mailroom.installation)
            )
            UNION
            SELECT id FROM mailroom.issued_tokens WHERE mailroom.normal_address(recipient_email) =
                normal
        );
    END IF;

    RETURN QUERY
    SELECT told.*
    FROM (SELECT DISTINCT asked FROM pg_catalog.unnest(traced) AS asked ORDER BY asked) AS each
    CROSS JOIN LATERAL mailroom.trace_token(each.asked, mailroom.clock()) AS told;
END;
$$;

COMMENT ON FUNCTION mailroom.trace(bigint[], text) IS
    'For support, a right of its own: the story of tokens, or of all tokens for an address, each '
    'in order of time: enqueued; attempts, as in delivery_log; accepted, by which provider, with '
    'its id and answer; suppressed; redeemed; ended; waiting or claimed. Also of tokens that were '
    'deleted, as far as log and receipts reach. By address it reads all tokens.';

-- Tables that do not grow for ever.

CREATE FUNCTION mailroom.begin_step(before timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Not waited for: whoever has it prunes already.
    LOCK TABLE mailroom.prune_lock IN EXCLUSIVE MODE NOWAIT;

    IF (before <= mailroom.clock() - interval '1 day') IS NOT TRUE THEN
        RAISE EXCEPTION 'what is younger than a day is not pruned'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.begin_step(timestamptz) IS
    'Begins a transaction that prunes: fails unless the time is at least a day ago, and if another '
    'one prunes (SQLSTATE 55P03).';

-- Where the log is read it is read in the order of its blocks, so that every block is read once,
-- however many rows are dead by then. New rows fill the blocks of pruned ones, so any block can
-- hold an old row.
CREATE FUNCTION mailroom.prune_attempts(
    before timestamptz, first_block bigint, block_count integer, OUT pruned bigint,
        OUT all_blocks bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
-- A plan for empty tables would read whole ones in each step.
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    PERFORM mailroom.begin_step(before);

    all_blocks := greatest(
        pg_relation_size('mailroom.delivery_log'::regclass),
            pg_relation_size('mailroom.receipts'::regclass)
    ) / current_setting('block_size'::text)::bigint;

    DELETE FROM mailroom.receipts
    WHERE accepted_at < before
        AND ctid >= pg_catalog.format('(%s,0)'::text, first_block)::tid
        AND ctid < pg_catalog.format('(%s,0)'::text, first_block + block_count::bigint)::tid;

    WITH gone AS (
        DELETE FROM mailroom.delivery_log
        WHERE happened_at < before
            AND ctid >= pg_catalog.format('(%s,0)'::text, first_block)::tid
            AND ctid < pg_catalog.format('(%s,0)'::text, first_block + block_count::bigint)::tid
        RETURNING tokens
    )
    SELECT coalesce(sum(pg_catalog.cardinality(tokens)), 0::bigint) INTO pruned FROM gone;

    -- With the last blocks, when what the runs that ended so long ago have logged is gone. A run
    -- may log something after its last sign of life, but not for an hour. The one seen last is
    -- kept: it may be missed.
    IF first_block + block_count::bigint >= all_blocks THEN
        DELETE FROM mailroom.collectors
        WHERE collector_id = ANY (ARRAY(
            SELECT gone.collector_id
            FROM mailroom.collectors AS gone
            WHERE gone.seen_at < before - interval '1 hour'
                AND gone.seen_at < (
                    SELECT max(newest.seen_at) FROM mailroom.collectors AS newest
                )
                AND NOT EXISTS (
                    SELECT FROM mailroom.leases WHERE leases.collector_id = gone.collector_id
                )
            FOR UPDATE SKIP LOCKED
        ));
    END IF;

    IF pruned > 0::bigint THEN
        UPDATE mailroom.installation SET log_complete_since = before
            WHERE log_complete_since < before;
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.prune_attempts(timestamptz, bigint, integer) IS
    'Deletes delivery attempts and receipts from before a time, at least a day ago, in some blocks '
    'of the log and of the receipts; with the last of them also runs of collectors that ended an '
    'hour before; answers how many attempts, and how many blocks the larger of the two has.';

CREATE FUNCTION mailroom.prune_dead_letters(
    before timestamptz, most integer, OUT pruned bigint, OUT has_more boolean
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    unheard bigint;
BEGIN
    PERFORM mailroom.begin_step(before);

    DELETE FROM mailroom.dead_letters
    WHERE token = ANY (ARRAY(
        SELECT given_up.token
        FROM mailroom.dead_letters AS given_up
        WHERE given_up.died_at < before
            AND NOT EXISTS (
                SELECT FROM mailroom.issued_tokens AS tokens
                WHERE id = given_up.token AND consumed_at IS NULL AND cancelled_at IS NULL
                    AND expires_at > floor(extract(epoch FROM mailroom.clock()))::bigint
            )
        LIMIT most
        FOR UPDATE SKIP LOCKED
    ));

    GET DIAGNOSTICS pruned = ROW_COUNT;

    -- They are no dead letters, and not counted as such. A sweep has found before that they have
    -- expired.
    DELETE FROM mailroom.handed_over
    WHERE token = ANY (ARRAY(
        SELECT token FROM mailroom.handed_over
        WHERE is_expired AND expires_at < floor(extract(epoch FROM before))::bigint
        ORDER BY expires_at
        LIMIT most
        FOR UPDATE SKIP LOCKED
    ));

    GET DIAGNOSTICS unheard = ROW_COUNT;
    has_more := greatest(pruned, unheard) >= most;
END;
$$;

COMMENT ON FUNCTION mailroom.prune_dead_letters(timestamptz, integer) IS
    'Deletes dead letters that were given up before a time, at least a day ago, and cannot be sent '
    'any more, and answers how many; and what was handed over, had no verdict and expired before. '
    'Of each no more than most: has_more says whether there may be more.';

CREATE SEQUENCE mailroom.longest_limit MINVALUE 0 START 0;

COMMENT ON SEQUENCE mailroom.longest_limit IS
    'Not counted up: the longest time, in seconds, within which request() or renew_link() was to '
    'count tokens.';

-- By id, which is nearly the order in which they were made: where none of the tokens of a step is
-- so old, the steps that follow find none either. What still waits is left for a claim, and what
-- can be put back for an operator.
CREATE FUNCTION mailroom.prune_tokens(before timestamptz, after_id bigint, most integer,
    OUT pruned bigint, OUT through_id bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
-- A bitmap has all rows that are over, of which a step deletes some.
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    ended bigint := floor(extract(epoch FROM before))::bigint;
    -- A variable: an index is not searched for what is computed for each row.
    epoch bigint := floor(extract(epoch FROM mailroom.clock()))::bigint;
    -- By these request() knows how many a subject has had.
    uncounted bigint := epoch - (SELECT nullif(last_value, 0) FROM mailroom.longest_limit);
    requestable smallint[] := ARRAY(
        SELECT number FROM mailroom.actions WHERE eligibility IS NOT NULL
    );
    seen integer;
    earliest bigint;
    forgotten integer;
    most_forgotten integer := 0;
BEGIN
    PERFORM mailroom.begin_step(before);

    SELECT count(*)::integer, min(created_at), max(id) INTO seen, earliest, through_id
    FROM (SELECT id, created_at FROM mailroom.issued_tokens AS tokens WHERE id > after_id
        ORDER BY id LIMIT most) AS next;

    -- One statement, one snapshot: what moves from the queue to a lease is in one of them.
    WITH gone AS (
        DELETE FROM mailroom.issued_tokens AS tokens
        WHERE id = ANY (ARRAY(
            SELECT id
            FROM mailroom.issued_tokens AS tokens
            WHERE id > after_id
                AND id <= through_id
                AND expires_at < ended
                AND ((created_at > uncounted) IS NOT TRUE OR action <> ALL (requestable))
                AND NOT EXISTS (SELECT FROM mailroom.queue WHERE token = tokens.id)
                AND NOT EXISTS (SELECT FROM mailroom.dead_letters WHERE token = tokens.id)
                AND NOT EXISTS (SELECT FROM mailroom.handed_over WHERE token = tokens.id)
                AND id NOT IN (SELECT pg_catalog.unnest(leases.tokens) FROM mailroom.leases)
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING id
    ),
    emptied AS (
        DELETE FROM mailroom.payloads WHERE token = ANY (ARRAY(SELECT id FROM gone))
    )
    SELECT count(*) INTO pruned FROM gone;

    -- In order, so that those go first whose time was over first.
    DELETE FROM mailroom.idempotency_keys
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM mailroom.idempotency_keys
        WHERE expires_at < epoch
        ORDER BY expires_at
        LIMIT most
        FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    most_forgotten := greatest(most_forgotten, forgotten);

    DELETE FROM mailroom.browser_codes
    WHERE binding = ANY (ARRAY(
        SELECT binding FROM mailroom.browser_codes
        WHERE expires_at < epoch
        ORDER BY expires_at
        LIMIT most
        FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    most_forgotten := greatest(most_forgotten, forgotten);

    -- Long enough that forgetting them gives nobody more than some hundred tries a year.
    DELETE FROM mailroom.code_failures
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM mailroom.code_failures
        WHERE rests_until < epoch - 180 * 86400
        ORDER BY rests_until
        LIMIT most
        FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    most_forgotten := greatest(most_forgotten, forgotten);

    -- After the last token steps go on for all else, of which there can be more.
    IF seen < most OR earliest >= ended THEN
        through_id := CASE WHEN most_forgotten >= most THEN 9223372036854775807 END;
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.prune_tokens(timestamptz, bigint, integer) IS
    'Deletes tokens that expired before a time, at least a day ago, among the next ones after an '
    'id, unless they are queued, leased, handed over or a dead letter, or request() has to count '
    'them; and idempotency keys and browsers'' codes whose time is over. Answers how many tokens, '
    'and the id to go on after, null at the end.';

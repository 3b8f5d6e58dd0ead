-- Feature: what an operator needs of the queue of deliveries: how much waits and for how long, and a log that does not grow for
-- ever. Functions that run with their owner's rights, so that an operator needs none on the tables.
--
-- Locks: nobody writes to handovers while its index on expired tokens is built, 1 s a million rows of the log.

BEGIN;

CREATE INDEX handovers_expired_idx ON handovers (happened_at) WHERE outcome OPERATOR(pg_catalog.=) 'expired';

COMMENT ON INDEX handovers_expired_idx IS
    'Serves mailroom_status(): how many tokens expired before they were sent, without reading the log.';

ALTER FUNCTION mailroom_retry(bigint[]) SECURITY DEFINER;
ALTER FUNCTION mailroom_retry_all() SECURITY DEFINER;

CREATE FUNCTION mailroom_status(
    OUT recoveries_due bigint,
    OUT activations_due bigint,
    OUT later bigint,
    OUT oldest_due_ms bigint,
    OUT leases bigint,
    OUT leased_tokens bigint,
    OUT lapsed_leases bigint,
    OUT oldest_lease_ms bigint,
    OUT parked bigint,
    OUT dead bigint,
    OUT expired bigint,
    OUT expired_last_hour bigint,
    OUT log_since bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom_clock();
BEGIN
    -- One statement, one snapshot: a token that moves between the tables is counted once.
    SELECT
        waiting.recoveries_due,
        waiting.activations_due,
        waiting.later,
        waiting.oldest_due_ms,
        claimed.leases,
        claimed.leased_tokens,
        claimed.lapsed_leases,
        claimed.oldest_lease_ms,
        (SELECT count(*) FROM parked),
        (SELECT count(*) FROM dead),
        (SELECT count(*) FROM handovers WHERE outcome OPERATOR(pg_catalog.=) 'expired'),
        (
            SELECT count(*) FROM handovers
            WHERE outcome OPERATOR(pg_catalog.=) 'expired' AND happened_at > epoch - interval '1 hour'
        ),
        (SELECT floor(extract(epoch FROM log_complete_since))::bigint FROM installation)
    INTO
        recoveries_due, activations_due, later, oldest_due_ms, leases, leased_tokens, lapsed_leases, oldest_lease_ms, parked,
        dead, expired, expired_last_hour, log_since
    FROM (
        SELECT
            count(*) FILTER (WHERE due_at <= epoch AND priority = 0::smallint) AS recoveries_due,
            count(*) FILTER (WHERE due_at <= epoch AND priority <> 0::smallint) AS activations_due,
            count(*) FILTER (WHERE due_at > epoch) AS later,
            floor(1000::numeric * extract(epoch FROM epoch - min(due_at) FILTER (WHERE due_at <= epoch)))::bigint
                AS oldest_due_ms
        FROM pending
    ) AS waiting
    CROSS JOIN (
        SELECT
            count(*) AS leases,
            coalesce(sum(pg_catalog.cardinality(tokens)), 0::bigint) AS leased_tokens,
            count(*) FILTER (WHERE ends_at <= epoch) AS lapsed_leases,
            floor(1000::numeric * extract(epoch FROM epoch - min(claimed_at)))::bigint AS oldest_lease_ms
        FROM leases
    ) AS claimed;
END;
$$;

COMMENT ON FUNCTION mailroom_status() IS
    'For operators: how many tokens are due, by what they do, how many will be later, since how many milliseconds the oldest'
    ' is due; batches that are claimed, their tokens, those whose lease has lapsed, since how many milliseconds the oldest is'
    ' claimed; parked and dead tokens; tokens that expired unsent, in all of the log and within the last hour; and since when,'
    ' in seconds of the Unix epoch, the log is complete.';

-- Where the log is read it is read in the order of its blocks, so that every block is read once, however many rows are dead
-- by then. New rows fill the blocks of pruned ones, so any block can hold an old row.
CREATE FUNCTION mailroom_prune(
    before timestamptz, first_block bigint, block_count integer, OUT pruned bigint, OUT all_blocks bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
#variable_conflict use_column
BEGIN
    IF before > mailroom_clock() - interval '1 day' THEN
        RAISE EXCEPTION 'what is younger than a day is not pruned' USING ERRCODE = 'invalid_parameter_value';
    END IF;

    all_blocks := pg_relation_size('handovers'::regclass) / current_setting('block_size'::text)::bigint;

    DELETE FROM handovers
    WHERE happened_at < before
        AND ctid >= pg_catalog.format('(%s,0)'::text, first_block)::tid
        AND ctid < pg_catalog.format('(%s,0)'::text, first_block + block_count::bigint)::tid;

    GET DIAGNOSTICS pruned = ROW_COUNT;

    IF pruned > 0::bigint THEN
        UPDATE installation SET log_complete_since = before WHERE log_complete_since < before;
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom_prune(timestamptz, bigint, integer) IS
    'Deletes hand-overs from before a time, at least a day ago, in some blocks of the log; answers how many, and how many'
    ' blocks the log has.';

CREATE FUNCTION mailroom_prune_dead(before timestamptz, most integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    pruned bigint;
BEGIN
    IF before > mailroom_clock() - interval '1 day' THEN
        RAISE EXCEPTION 'what is younger than a day is not pruned' USING ERRCODE = 'invalid_parameter_value';
    END IF;

    DELETE FROM dead
    WHERE token = ANY (ARRAY(
        SELECT given_up.token
        FROM dead AS given_up
        WHERE given_up.died_at < before
            AND NOT EXISTS (
                SELECT FROM tokens
                WHERE id = given_up.token AND consumed_at IS NULL AND cancelled_at IS NULL
                    AND expires_at > floor(extract(epoch FROM mailroom_clock()))::bigint
            )
        LIMIT most
        FOR UPDATE SKIP LOCKED
    ));

    GET DIAGNOSTICS pruned = ROW_COUNT;
    RETURN pruned;
END;
$$;

COMMENT ON FUNCTION mailroom_prune_dead(timestamptz, integer) IS
    'Deletes tokens that were given up before a time, at least a day ago, and cannot be sent any more; answers how many.';

-- By id, which is nearly the order in which they were made: where none of the tokens of a step is so old, the steps that follow
-- find none either. What a sweep has still to come to is left for it.
CREATE FUNCTION mailroom_prune_tokens(before timestamptz, after_id bigint, most integer, OUT pruned bigint, OUT through_id bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    ended bigint := floor(extract(epoch FROM before))::bigint;
    seen integer;
    earliest bigint;
BEGIN
    IF before > mailroom_clock() - interval '1 day' THEN
        RAISE EXCEPTION 'what is younger than a day is not pruned' USING ERRCODE = 'invalid_parameter_value';
    END IF;

    SELECT count(*)::integer, min(created_at), max(id) INTO seen, earliest, through_id
    FROM (SELECT id, created_at FROM tokens WHERE id > after_id ORDER BY id LIMIT most) AS next;

    DELETE FROM tokens
    WHERE id = ANY (ARRAY(
        SELECT id
        FROM tokens
        WHERE id > after_id
            AND id <= through_id
            AND expires_at < ended
            AND NOT EXISTS (SELECT FROM pending WHERE token = tokens.id)
            AND NOT EXISTS (SELECT FROM parked WHERE token = tokens.id)
        FOR UPDATE SKIP LOCKED
    ));

    GET DIAGNOSTICS pruned = ROW_COUNT;

    IF seen < most OR earliest >= ended THEN
        through_id := NULL;
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom_prune_tokens(timestamptz, bigint, integer) IS
    'Deletes tokens that expired before a time, at least a day ago, among the next ones after an id; answers how many, and the id to'
    ' go on after, null at the end.';

DO $$
DECLARE
    home name := (
        SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE pg_class.oid = 'tokens'::regclass
    );
    signature text;
BEGIN
    FOREACH signature IN ARRAY ARRAY[
        'mailroom_status()',
        'mailroom_prune(timestamptz, bigint, integer)',
        'mailroom_prune_dead(timestamptz, integer)',
        'mailroom_prune_tokens(timestamptz, bigint, integer)'
    ] LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', signature, home);
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', signature);
        IF signature LIKE '%prune_tokens%' THEN
            EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = force_generic_plan', signature);
            EXECUTE format('ALTER FUNCTION %s SET enable_seqscan = off', signature);
        END IF;
    END LOOP;
END;
$$;

COMMIT;

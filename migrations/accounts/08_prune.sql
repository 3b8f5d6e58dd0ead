-- The accounts' table of tokens does not grow for ever.

-- Those from before this step have no row in tokens.
CREATE FUNCTION mailroom.prune_account_tokens(
    before timestamptz, after_id bigint, most integer, OUT pruned bigint, OUT through_id bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    ended bigint := floor(extract(epoch FROM before))::bigint;
    -- By these request() knows how many an account has had.
    uncounted bigint := floor(extract(epoch FROM mailroom.clock()))::bigint
        - (SELECT nullif(last_value, 0) FROM mailroom.longest_limit);
    seen integer;
    earliest bigint;
BEGIN
    PERFORM mailroom.begin_step(before);

    SELECT count(*)::integer, min(created_at), max(id) INTO seen, earliest, through_id
    FROM (SELECT id, created_at FROM mailroom.adopted_tokens WHERE id > after_id ORDER BY id
        LIMIT most) AS next;

    DELETE FROM mailroom.adopted_tokens
    WHERE id = ANY (ARRAY(
        SELECT id
        FROM mailroom.adopted_tokens
        WHERE id > after_id
            AND id <= through_id
            AND expires_at < ended
            AND (created_at > uncounted) IS NOT TRUE
            AND NOT EXISTS (SELECT FROM mailroom.queue WHERE token = id)
            AND NOT EXISTS (SELECT FROM mailroom.dead_letters WHERE token = id)
            AND NOT EXISTS (SELECT FROM mailroom.handed_over WHERE token = id)
            AND id NOT IN (SELECT pg_catalog.unnest(leases.tokens) FROM mailroom.leases)
        FOR UPDATE SKIP LOCKED
    ));

    GET DIAGNOSTICS pruned = ROW_COUNT;

    IF seen < most OR earliest >= ended THEN
        through_id := NULL;
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.prune_account_tokens(timestamptz, bigint, integer) IS
    'As prune_tokens(), for the table of the accounts'' tokens.';

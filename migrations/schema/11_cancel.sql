-- Tokens that end before they are used.

-- Collectors do not wait for a payload that an open transaction deletes.
CREATE FUNCTION mailroom.delete_payloads(tokens bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    DELETE FROM mailroom.payloads
    WHERE token = ANY (ARRAY(
        SELECT token FROM mailroom.payloads WHERE token = ANY (tokens) FOR UPDATE SKIP LOCKED
    ));
END;
$$;

COMMENT ON FUNCTION mailroom.delete_payloads(bigint[]) IS
    'Deletes the payloads of tokens, but for those that somebody else has locked.';

-- The secrets of tokens that are used or void go with their rows; those of leases go when the batch
-- is settled, in a moment. Nothing is waited for: a row that a collector is just claiming, or an
-- operator putting back, is taken away by the next claim, which finds the token used or cancelled.
CREATE FUNCTION mailroom.withdraw(gone bigint[], reason text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
BEGIN
    WITH withdrawn AS (
        DELETE FROM mailroom.queue
        WHERE token = ANY (ARRAY(SELECT token FROM mailroom.queue
            WHERE token = ANY (gone) FOR UPDATE SKIP LOCKED))
        RETURNING token, attempts
    )
    INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome, reason)
    SELECT ARRAY[token], mailroom.clock(), attempts, 'cancelled', withdraw.reason
    FROM withdrawn
    WHERE withdraw.reason IS NOT NULL;

    PERFORM mailroom.delete_payloads(gone);

    -- Not `secret IS NOT NULL`, which is the condition of an index by expiry: a plan that was made
    -- for an empty table would use that index, and read all of it.
    UPDATE mailroom.dead_letters
    SET secret = NULL, code = NULL
    WHERE token = ANY (ARRAY(
        SELECT token FROM mailroom.dead_letters
        WHERE token = ANY (gone) AND coalesce(secret, '') <> ''
        FOR UPDATE SKIP LOCKED
    ));

    -- Its mail may still go out, and its verdict is waited for.
    UPDATE mailroom.handed_over
    SET secret = NULL, code = NULL
    WHERE token = ANY (ARRAY(
        SELECT token FROM mailroom.handed_over
        WHERE token = ANY (gone) AND coalesce(secret, '') <> ''
        FOR UPDATE SKIP LOCKED
    ));
END;
$$;

COMMENT ON FUNCTION mailroom.withdraw(bigint[], text) IS
    'Takes tokens out of the queue, with their secrets and payloads, and logs why, '
    'if a reason is given.';

-- What has not expired can be used, and of a dead letter a new link would be made, even if it has.
CREATE FUNCTION mailroom.living_tokens(tokens bigint[], epoch bigint) RETURNS bigint[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
BEGIN
    RETURN ARRAY(
        SELECT known.id
        FROM mailroom.issued_tokens AS known
        WHERE known.id = ANY (tokens)
            AND known.consumed_at IS NULL
            AND known.cancelled_at IS NULL
            AND (
                known.expires_at > epoch
                OR EXISTS (
                    SELECT FROM mailroom.dead_letters AS letter WHERE letter.token = known.id
                )
            )
    );
END;
$$;

COMMENT ON FUNCTION mailroom.living_tokens(bigint[], bigint) IS
    'Those of the tokens that can be used at this second, or be put back.';

CREATE FUNCTION mailroom.cancel(token bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    epoch bigint := floor(extract(epoch FROM mailroom.clock()));
    living bigint[];
BEGIN
    -- A statement of its own: whether its dead letter was put back while this waited is seen by one
    -- that begins later.
    PERFORM FROM mailroom.issued_tokens WHERE id = cancel.token FOR NO KEY UPDATE;

    living := mailroom.living_tokens(ARRAY[cancel.token], epoch);
    UPDATE mailroom.issued_tokens SET cancelled_at = epoch WHERE id = ANY (living);

    IF FOUND THEN
        PERFORM mailroom.withdraw(ARRAY[cancel.token], 'the application cancelled it');
        RETURN true;
    END IF;

    RETURN false;
END;
$$;

COMMENT ON FUNCTION mailroom.cancel(bigint) IS
    'Ends a token that can still be used, or be put back: its mail is not sent any more, and its '
    'link is no longer good. Answers whether it could.';

-- Ascending, as all do that wait for more than one token. No index has this order: a plan that was
-- made for a table without rows could read all that are there later, in the order of their key.
-- Whoever goes on to lock one token that may have been used meanwhile names it here: those who
-- waited for it before it was used hold it, and wait for the others.
CREATE FUNCTION mailroom.lock_links(subject_id text, own bigint) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM mailroom.issued_tokens AS tokens
    WHERE tokens.id = lock_links.own
        OR (
            tokens.subject_id = lock_links.subject_id
            AND tokens.consumed_at IS NULL
            AND tokens.cancelled_at IS NULL
        )
    ORDER BY tokens.id + 0
    FOR NO KEY UPDATE;

    -- Those that were made while this waited are seen by a statement that begins later. They can
    -- come before those that are locked, so that nothing is waited for here: what others hold
    -- by now was made after this began.
    RETURN ARRAY(
        SELECT tokens.id
        FROM mailroom.issued_tokens AS tokens
        WHERE tokens.subject_id = lock_links.subject_id
            AND tokens.consumed_at IS NULL
            AND tokens.cancelled_at IS NULL
        ORDER BY tokens.id + 0
        FOR NO KEY UPDATE SKIP LOCKED
    );
END;
$$;

COMMENT ON FUNCTION mailroom.lock_links(text, bigint) IS
    'Locks the tokens of a subject that were neither used nor cancelled, and answers their ids; '
    'locks the one that is named as well.';

CREATE FUNCTION mailroom.cancel_subject(subject_id text, only_proofs boolean DEFAULT false)
    RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    epoch bigint := floor(extract(epoch FROM mailroom.clock()));
    locked bigint[] := mailroom.lock_links(subject_id, NULL::bigint);
    living bigint[] := mailroom.living_tokens(locked, epoch);
    ended bigint[];
    usable integer;
BEGIN
    WITH ended AS (
        UPDATE mailroom.issued_tokens AS tokens
        SET cancelled_at = epoch
        WHERE id = ANY (living)
            AND (NOT only_proofs OR action IN (SELECT number FROM mailroom.actions
                WHERE proves_address OR name = 'change_email'))
        RETURNING id, expires_at
    )
    SELECT array_agg(id), count(*) FILTER (WHERE expires_at > epoch)
    INTO ended, usable
    FROM ended;

    IF ended IS NOT NULL THEN
        PERFORM mailroom.withdraw(ended, 'the application cancelled the tokens of its subject');
    END IF;

    RETURN usable;
END;
$$;

COMMENT ON FUNCTION mailroom.cancel_subject(text, boolean) IS
    'Ends the tokens of a subject that can still be used; with only_proofs those that prove its '
    'address and those that would change it, for when it changes. Answers how many.';

CREATE FUNCTION mailroom.recheck(subject_id text) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    rechecked integer;
BEGIN
    -- As new rows: a claim in between, which deletes them, is waited for, and a collector that
    -- sleeps is woken. By a clock that is read when the transaction has its number,
    -- as peek() needs it.
    WITH deferred AS (
        -- By an array: a join could read the whole queue.
        DELETE FROM mailroom.queue
        WHERE token = ANY (ARRAY(
                SELECT id FROM mailroom.issued_tokens AS tokens
                WHERE tokens.subject_id = recheck.subject_id
            ))
            AND deferrals > 0
        RETURNING *
    )
    INSERT INTO mailroom.queue (
        token, due_at, attempts, failures, priority, secret, code, waits_since, doubts
    )
    SELECT
        token, mailroom.clock(), attempts, failures, priority, secret, code, waits_since, doubts
    FROM deferred
    ON CONFLICT DO NOTHING;

    GET DIAGNOSTICS rechecked = ROW_COUNT;
    RETURN rechecked;
END;
$$;

COMMENT ON FUNCTION mailroom.recheck(text) IS
    'Has the deferred tokens of a subject looked at again at once; for triggers, when a subject '
    'may have become eligible. Answers how many.';

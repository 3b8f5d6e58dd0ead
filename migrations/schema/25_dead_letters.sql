-- Dead letters that go out again or are discarded, and addresses that are suppressed.

CREATE FUNCTION mailroom.retry(tokens bigint[])
RETURNS TABLE (token bigint, is_in_doubt boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom.clock();
    letter mailroom.dead_letters;
    expired mailroom.issued_tokens;
    outer_binding text := current_setting('mailroom.binding', true);
    is_renewed boolean;
BEGIN
    -- In the order in which whoever locks tokens does so.
    FOR letter IN
        WITH put_back AS (
            DELETE FROM mailroom.dead_letters WHERE token = ANY (retry.tokens)
            RETURNING *
        )
        SELECT * FROM put_back ORDER BY token
    LOOP
        token := letter.token;
        is_in_doubt := letter.is_in_doubt;

        SELECT tokens.* INTO expired
        FROM mailroom.issued_tokens AS tokens
        JOIN mailroom.actions ON number = action
        WHERE id = letter.token
            AND tokens.expires_at <= extract(epoch FROM epoch)
            AND consumed_at IS NULL
            AND cancelled_at IS NULL
            AND NOT is_retired
        -- Whoever ends it just now is waited for, and ends what this makes if he comes later.
        FOR NO KEY UPDATE OF tokens;

        -- Its secret is erased, so a new token is made in its place, with its binding, and with
        -- the payload if that still exists.
        IF FOUND THEN
            is_renewed := false;

            -- An account's token is inserted into the accounts' table of tokens, so it goes to the
            -- account's present address.
            IF to_regclass('mailroom.adopted_tokens') IS NOT NULL THEN
                PERFORM set_config('mailroom.binding',
                    coalesce(encode(expired.binding, 'hex'), ''), true);
                INSERT INTO mailroom.adopted_tokens (account, action)
                SELECT account, action FROM mailroom.adopted_tokens WHERE id = expired.id;
                is_renewed := FOUND;

                -- A registration has no row there once secrets were dropped. Its address need not
                -- be one that enqueue() takes.
                IF NOT is_renewed AND expired.action = 1 AND NOT expired.has_payload
                    AND expired.subject_id ~ '^(0|[1-9][0-9]{0,17})$' THEN
                    INSERT INTO mailroom.adopted_tokens (account, action)
                    SELECT id, 'activation'
                    FROM mailroom.adopted_accounts
                    WHERE id = expired.subject_id::bigint
                        AND email::text = expired.recipient_email COLLATE "C"
                        AND login::text = expired.recipient_name COLLATE "C";
                    is_renewed := FOUND;
                END IF;

                PERFORM set_config('mailroom.binding', coalesce(outer_binding, ''), true);
            END IF;

            IF NOT is_renewed THEN
                PERFORM mailroom.enqueue(
                    actions.name, expired.recipient_email, expired.recipient_name,
                    expired.subject_id,
                    (SELECT payload FROM mailroom.payloads WHERE payloads.token = expired.id),
                    expired.language, NULL::timestamptz, NULL::text, expired.binding,
                    expired.notice_recipient, expired.traceparent
                )
                FROM mailroom.actions
                WHERE number = expired.action;
            END IF;

            INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome, reason)
            VALUES (
                ARRAY[letter.token], epoch, letter.attempts,
                CASE WHEN is_in_doubt THEN 'dead' ELSE 'expired' END::mailroom.outcome,
                CASE WHEN is_in_doubt THEN mailroom.doubtful('a new mail was made in its place') END
            );
            RETURN NEXT;
            CONTINUE;
        END IF;

        -- What cannot be used any more is ended by the next claim. Senders know the attempts in
        -- doubt, so the count stays: with one more doubt the token is given up again.
        INSERT INTO mailroom.queue (token, due_at, attempts, priority, secret, code, doubts)
        VALUES (
            letter.token, mailroom.clock(), letter.attempts, letter.priority,
            coalesce(letter.secret, ''::bytea), letter.code, letter.doubts
        )
        ON CONFLICT DO NOTHING;

        IF FOUND THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END;
$$;

COMMENT ON FUNCTION mailroom.retry(bigint[]) IS
    'Puts dead letters back, with all their attempts left; answers which, and whether they may '
    'have been delivered before. What has expired meanwhile, and was neither used nor cancelled, '
    'is logged as expired, or again as a dead letter that may have been delivered, '
    'and gets a new token.';

-- A function of its own: an array that is null by mistake must not put everything back.
CREATE FUNCTION mailroom.retry_all(in_doubt boolean DEFAULT false)
RETURNS TABLE (token bigint, is_in_doubt boolean)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off
BEGIN ATOMIC
    SELECT retried.token, retried.is_in_doubt
    FROM mailroom.retry(ARRAY(
        SELECT letter.token FROM mailroom.dead_letters AS letter
        WHERE retry_all.in_doubt OR NOT letter.is_in_doubt
    )) AS retried;
END;

COMMENT ON FUNCTION mailroom.retry_all(boolean) IS
    'Puts all dead letters back, with all their attempts left; answers which. Those that may have '
    'been delivered only with in_doubt.';

-- The token stays as it is: if an earlier attempt delivered the mail after all,
-- its link goes on working.
CREATE FUNCTION mailroom.discard(tokens bigint[]) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH
    discarded AS (
        DELETE FROM mailroom.dead_letters WHERE token = ANY (discard.tokens)
            RETURNING token, attempts
    ),
    emptied AS (
        DELETE FROM mailroom.payloads WHERE token = ANY (ARRAY(SELECT token FROM discarded))
    ),
    logged AS (
        INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome, reason)
        SELECT ARRAY[token], mailroom.clock(), attempts, 'cancelled', 'discarded' FROM discarded
    )
    SELECT token FROM discarded;
END;
$$;

COMMENT ON FUNCTION mailroom.discard(bigint[]) IS
    'Deletes dead letters, which nobody can put back then, and logs them as cancelled, with the '
    'reason discarded; answers which.';

CREATE FUNCTION mailroom.discard_all(older_than interval DEFAULT '0') RETURNS SETOF bigint
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off
BEGIN ATOMIC
    SELECT mailroom.discard(ARRAY(
        SELECT token FROM mailroom.dead_letters WHERE died_at <= mailroom.clock() -
            discard_all.older_than
    ));
END;

COMMENT ON FUNCTION mailroom.discard_all(interval) IS
    'Deletes all dead letters that were given up so long ago, as discard() does; answers which.';

-- For programs that read bounces, whose role needs this alone. What is known stays as it is, so
-- that a notification that comes again changes nothing. Of what was said, addresses and what looks
-- like a token are left out.
CREATE FUNCTION mailroom.suppress(address text, reason text, provider text DEFAULT NULL,
    detail text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    fault text := CASE
        WHEN mailroom.is_address(suppress.address) IS NOT TRUE
            THEN 'what is to be suppressed is no address'
        WHEN (suppress.reason IN ('bounce', 'complaint', 'manual')) IS NOT TRUE
            THEN 'reason is not bounce, complaint or manual'
    END;
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'mailroom.suppress(): %', fault USING ERRCODE = 'invalid_parameter_value';
    END IF;

    INSERT INTO mailroom.suppressions (address, reason, provider, detail, suppressed_at)
    VALUES (
        mailroom.normal_address(suppress.address), suppress.reason, suppress.provider,
        left(regexp_replace(regexp_replace(regexp_replace(
            left(suppress.detail, 1000),
            '[[:space:][:cntrl:]]+', ' ', 'g'),
            '[^ ]*(@|%40)[^ ]*', '[address]', 'g'),
            '[^ ]*[A-Za-z0-9_-]{32}[^ ]*', '[secret]', 'g'
        ), 200),
        mailroom.clock()
    )
    ON CONFLICT ON CONSTRAINT suppressions_pkey DO NOTHING;

    RETURN FOUND;
END;
$$;

COMMENT ON FUNCTION mailroom.suppress(text, text, text, text) IS
    'Suppresses an address: mails to it become dead letters when they are claimed. Returns false '
    'if it was suppressed already. reason is bounce, complaint or manual.';

CREATE FUNCTION mailroom.lift_suppression(address text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    DELETE FROM mailroom.suppressions WHERE address =
        mailroom.normal_address(lift_suppression.address);
    RETURN FOUND;
END;
$$;

COMMENT ON FUNCTION mailroom.lift_suppression(text) IS
    'Lets mails for an address go out again, except for those that were given up: retry() puts '
    'them back. Answers whether it was suppressed.';

CREATE VIEW mailroom.suppressed_addresses AS
SELECT address, reason, provider, detail, suppressed_at FROM mailroom.suppressions;

COMMENT ON VIEW mailroom.suppressed_addresses IS
    'Addresses that get no mails, and why; for applications and operators.';

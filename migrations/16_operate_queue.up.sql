-- Feature: what an operator needs of the queue: where each token stands, how much waits and for how
-- long, dead letters that go out again, and tables that do not grow for ever.
--
-- Locks: no table; some milliseconds.

BEGIN;

-- For a dead letter that has expired: its secret is erased, so a new token is made, with the
-- payload if that still exists. An account's token is inserted into the accounts' table of tokens,
-- so it goes to the account's present address. The new token has the binding of the old one.
CREATE FUNCTION mailroom.renew(expired mailroom.issued_tokens) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    outer_binding text := current_setting('mailroom.binding', true);
    is_renewed boolean;
BEGIN
    IF to_regclass('mailroom.adopted_tokens') IS NOT NULL THEN
        PERFORM set_config('mailroom.binding', coalesce(encode(expired.binding, 'hex'), ''), true);
        INSERT INTO mailroom.adopted_tokens (account, action) SELECT account, action
            FROM mailroom.adopted_tokens WHERE id = expired.id;
        is_renewed := FOUND;

        -- A registration has no row there once secrets were dropped. Its address need not be one
        -- that enqueue() takes.
        IF NOT is_renewed AND expired.action = 1 AND NOT expired.has_payload
            AND expired.subject_id ~ '^[0-9]{1,18}$' THEN
            INSERT INTO mailroom.adopted_tokens (account, action)
            SELECT id, 'activation'
            FROM mailroom.adopted_accounts
            WHERE id = expired.subject_id::bigint
                AND email::text = expired.recipient_email COLLATE "C"
                AND login::text = expired.recipient_name COLLATE "C";
            is_renewed := FOUND;
        END IF;

        PERFORM set_config('mailroom.binding', coalesce(outer_binding, ''), true);

        IF is_renewed THEN
            RETURN;
        END IF;
    END IF;

    PERFORM mailroom.enqueue(
        actions.name, expired.recipient_email, expired.recipient_name, expired.subject_id,
        (SELECT payload FROM mailroom.payloads WHERE token = expired.id), expired.language,
            binding => expired.binding
    )
    FROM mailroom.actions
    WHERE number = expired.action;
END;
$$;

REVOKE ALL ON FUNCTION mailroom.renew(mailroom.issued_tokens) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.renew(mailroom.issued_tokens) IS
    'Makes and queues a token in the place of one that expired.';

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
BEGIN
    FOR letter IN DELETE FROM mailroom.dead_letters WHERE token = ANY (retry.tokens)
        RETURNING * LOOP
        token := letter.token;
        is_in_doubt := letter.is_in_doubt;

        SELECT tokens.* INTO expired
        FROM mailroom.issued_tokens AS tokens
        JOIN mailroom.actions ON number = action
        WHERE id = letter.token
            AND tokens.expires_at <= extract(epoch FROM epoch)
            AND consumed_at IS NULL
            AND cancelled_at IS NULL
            AND NOT is_retired;

        IF FOUND THEN
            PERFORM mailroom.renew(expired);
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

CREATE VIEW mailroom.delivery_attempts AS
SELECT item.token, log.happened_at, log.holder, log.batch, log.attempt, log.outcome, log.reason
FROM mailroom.delivery_log AS log
CROSS JOIN LATERAL pg_catalog.unnest(log.tokens) AS item (token);

COMMENT ON VIEW mailroom.delivery_attempts IS
    'The delivery log with a row for each token. Of a single token, history(token) has the same '
    'without reading all of the log.';

CREATE FUNCTION mailroom.history(token bigint) RETURNS TABLE (
    happened_at timestamptz, holder bigint, batch uuid, attempt integer, outcome mailroom.outcome,
        reason text
)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off
BEGIN ATOMIC
    SELECT log.happened_at, log.holder, log.batch, log.attempt, log.outcome, log.reason
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
    place.holder,
    collectors.name AS collector,
    place.batch,
    place.reason,
    place.doubts
FROM mailroom.issued_tokens AS tokens
LEFT JOIN mailroom.queue ON queue.token = tokens.id
LEFT JOIN mailroom.dead_letters AS dead ON dead.token = tokens.id
LEFT JOIN (
    SELECT
        item.token, item.attempt, leases.claimed_at, leases.holder, leases.batch,
        coalesce(item.doubts, 0::smallint) AS doubts
    FROM mailroom.leases
    CROSS JOIN LATERAL ROWS FROM (
        pg_catalog.unnest(leases.tokens), pg_catalog.unnest(leases.attempts),
        pg_catalog.unnest(leases.doubts)
    ) AS item (token, attempt, doubts)
) AS leased ON leased.token = tokens.id
LEFT JOIN LATERAL (
    SELECT log.outcome::text, log.attempt, log.happened_at, log.holder, log.batch, log.reason
    FROM mailroom.delivery_log AS log
    WHERE log.tokens[1] / 256 = tokens.id / 256 AND tokens.id = ANY (log.tokens)
    ORDER BY log.happened_at DESC, log.attempt DESC
    LIMIT 1
) AS last ON true
CROSS JOIN mailroom.installation
CROSS JOIN LATERAL (
    SELECT
        'queued' AS state, queue.attempts, queue.due_at AS since, NULL::bigint AS holder,
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
        'leased', leased.attempt, leased.claimed_at, leased.holder, leased.batch, NULL,
        leased.doubts
    WHERE leased.token IS NOT NULL
    UNION ALL
    SELECT
        last.outcome, last.attempt, last.happened_at, last.holder, last.batch, last.reason,
        NULL::smallint
    WHERE last.outcome IS NOT NULL
    UNION ALL
    SELECT 'unrecorded', NULL, NULL, NULL, NULL, 'the log begins at ' || log_complete_since, NULL
    LIMIT 1
) AS place
LEFT JOIN mailroom.collectors ON collectors.holder = place.holder;

COMMENT ON VIEW mailroom.deliveries IS
    'Where a token stands: queued, deferred, leased or dead; or how it ended: sent, expired or '
    'cancelled; or unrecorded, if that was before the log began. With the number of delivery '
    'attempts, since when, by whom and why, and, until it has ended, how many attempts ended in '
    'doubt: nobody knows whether the mail was accepted. For tokens that are named: to look for a '
    'state reads all of them, where the view waiting reads what has that state.';

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
    place.holder,
    (SELECT name FROM mailroom.collectors WHERE collectors.holder = place.holder) AS collector,
    place.batch,
    place.reason
FROM (
    SELECT
        token, 'queued' AS state, attempts, doubts, due_at AS since, NULL::bigint AS holder,
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
        item.token, 'leased', item.attempt, coalesce(item.doubts, 0::smallint), claimed_at, holder,
        batch, NULL
    FROM mailroom.leases
    CROSS JOIN LATERAL ROWS FROM (
        pg_catalog.unnest(tokens), pg_catalog.unnest(leases.attempts),
        pg_catalog.unnest(leases.doubts)
    ) AS item (token, attempt, doubts)
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
    'What is not done: each token that is queued, deferred, leased or dead, as in deliveries, with '
    'the name of its action. It reads what has the state that is asked for, so that all dead '
    'letters can be listed, however many tokens there are.';

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
        SELECT * FROM mailroom.issued_tokens WHERE id = traced
    ),
    told (rank, happened_at, event, attempt, action, holder, provider, message_id, detail) AS (
        SELECT
            0, to_timestamp(created_at), 'enqueued', NULL::integer, action, NULL::bigint,
                NULL::text, NULL::text,
            'its link ends at ' || to_char(to_timestamp(expires_at) AT TIME ZONE 'UTC',
            'YYYY-MM-DD"T"HH24:MI:SS"Z"')
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
        SELECT 1, log.happened_at, outcome::text, attempt, NULL, holder, NULL, NULL, reason
        FROM mailroom.delivery_log AS log
        WHERE tokens[1] / 256 = traced / 256 AND traced = ANY (tokens)
        UNION ALL
        SELECT 2, to_timestamp(consumed_at), 'redeemed', NULL, NULL, NULL, NULL, NULL,
            'its link was used'
        FROM known
        WHERE consumed_at IS NOT NULL
        UNION ALL
        SELECT 2, to_timestamp(cancelled_at), 'ended', NULL, NULL, NULL, NULL, NULL,
            'its link was cancelled'
        FROM known
        WHERE cancelled_at IS NOT NULL
        UNION ALL
        SELECT 2, to_timestamp(expires_at), 'ended', NULL, NULL, NULL, NULL, NULL,
            'its link is no longer valid'
        FROM known
        WHERE consumed_at IS NULL AND cancelled_at IS NULL AND to_timestamp(expires_at) <= epoch
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
        SELECT 3, claimed_at, 'claimed', item.attempt, NULL, holder, NULL, NULL,
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
    LEFT JOIN mailroom.collectors USING (holder)
    ORDER BY date_trunc('second', told.happened_at), rank, told.happened_at, told.attempt,
        told.event;
END;
$$;

REVOKE ALL ON FUNCTION mailroom.trace_token(bigint, timestamptz) FROM PUBLIC;

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

-- One that was started on the same host after another one was seen last has replaced it. Who ended
-- without a word an hour ago is forgotten, unless nobody has come after it.
CREATE FUNCTION mailroom.present_collectors(epoch timestamptz) RETURNS TABLE (
    holder bigint, name text, started_at timestamptz, seen_at timestamptz, state text,
        state_since timestamptz, state_reason text,
    is_alive boolean, token_format text, installation text
)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    -- Read once: the table keeps every process that ever collected.
    WITH known AS (
        SELECT
            one.holder, one.name, one.started_at, one.seen_at, one.state, one.state_since,
            one.state_reason,
            one.seen_at > present_collectors.epoch - interval '90 seconds' AS is_alive,
            max(one.started_at) OVER (PARTITION BY split_part(one.name, ' process ', 1))
                > one.seen_at AS is_replaced,
            max(one.seen_at) OVER () > one.seen_at AS is_followed,
            one.token_format, one.installation
        FROM mailroom.collectors AS one
    )
    SELECT known.holder, known.name, known.started_at, known.seen_at, known.state,
        known.state_since, known.state_reason, known.is_alive,
        known.token_format, known.installation
    FROM known
    WHERE known.state IS DISTINCT FROM 'ended'
        AND (
            known.is_alive
            OR NOT known.is_replaced
            AND (
                known.seen_at > present_collectors.epoch - interval '1 hour'
                OR NOT known.is_followed
            )
        );
END;

REVOKE ALL ON FUNCTION mailroom.present_collectors(timestamptz) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.present_collectors(timestamptz) IS
    'Collectors that gave a sign of life within 90 seconds, and those that are missed: they '
    'neither ended in order nor were replaced.';

CREATE FUNCTION mailroom.status(
    OUT first_due bigint,
    OUT second_due bigint,
    OUT later bigint,
    OUT oldest_due_ms bigint,
    OUT leases bigint,
    OUT leased_tokens bigint,
    OUT lapsed_leases bigint,
    OUT oldest_lease_ms bigint,
    OUT deferred bigint,
    OUT dead_letters bigint,
    OUT dead_last_hour bigint,
    OUT suppressed bigint,
    OUT expired bigint,
    OUT expired_last_hour bigint,
    OUT log_since bigint,
    OUT collectors_alive bigint,
    OUT collectors_lost bigint,
    OUT unavailable_ms bigint,
    OUT collectors json,
    OUT in_doubt bigint,
    OUT in_doubt_last_hour bigint,
    OUT dead_in_doubt bigint,
    OUT in_doubt_oldest_ms bigint,
    OUT dead_in_doubt_last_hour bigint,
    OUT unsignable bigint,
    OUT token_formats bigint,
    OUT token_format text,
    OUT installation text,
    OUT misnamed bigint,
    OUT is_of_another_cluster boolean
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom.clock();
BEGIN
    -- One statement, one snapshot: a token that moves between the tables is counted once.
    SELECT
        waiting.first_due,
        waiting.second_due,
        waiting.later,
        floor(1000::numeric * extract(epoch FROM epoch - least(waiting.oldest,
            claimed.oldest)))::bigint,
        claimed.leases,
        claimed.leased_tokens,
        claimed.lapsed_leases,
        claimed.oldest_lease_ms,
        waiting.deferred,
        given_up.total,
        given_up.last_hour,
        given_up.suppressed,
        (SELECT count(*) FROM mailroom.delivery_log WHERE outcome = 'expired'),
        (
            SELECT count(*) FROM mailroom.delivery_log
            WHERE outcome = 'expired' AND happened_at > epoch - interval '1 hour'
        ),
        floor(extract(epoch FROM own.log_complete_since))::bigint,
        known.alive,
        known.lost,
        known.unavailable_ms,
        known.list,
        waiting.in_doubt + claimed.in_doubt,
        (
            SELECT count(*) FROM mailroom.delivery_log
            WHERE outcome = 'in_doubt' AND happened_at > epoch - interval '1 hour'
        ),
        maybe_delivered.total,
        floor(1000::numeric * extract(epoch FROM epoch - least(waiting.in_doubt_since,
            claimed.in_doubt_since)))::bigint,
        maybe_delivered.last_hour,
        -- What no collector that is alive signs: v1 knows two actions and binds no links.
        (
            SELECT count(*)
            FROM mailroom.queue AS put_off
            -- One by one: a join would read all tokens.
            CROSS JOIN LATERAL (
                SELECT looked_up.action, looked_up.binding
                FROM mailroom.issued_tokens AS looked_up
                WHERE looked_up.id = put_off.token
                OFFSET 0
            ) AS known_token
            WHERE known.sign_v1_only
                AND put_off.deferrals > 0
                AND (known_token.action > 2 OR known_token.binding IS NOT NULL)
        ),
        known.formats,
        own.token_format,
        own.name,
        known.misnamed,
        coalesce(own.system_identifier <> mailroom.cluster_identifier(), false)
    INTO
        first_due, second_due, later, oldest_due_ms, leases, leased_tokens, lapsed_leases,
            oldest_lease_ms, deferred,
        dead_letters, dead_last_hour, suppressed, expired, expired_last_hour, log_since,
        collectors_alive, collectors_lost, unavailable_ms, collectors,
        in_doubt, in_doubt_last_hour, dead_in_doubt, in_doubt_oldest_ms, dead_in_doubt_last_hour,
        unsignable, token_formats, token_format, installation, misnamed, is_of_another_cluster
    FROM mailroom.installation AS own
    CROSS JOIN (
        SELECT
            count(*) FILTER (WHERE deferrals = 0 AND due_at <= epoch AND priority = 0::smallint)
                AS first_due,
            count(*) FILTER (WHERE deferrals = 0 AND due_at <= epoch AND priority <> 0::smallint)
                AS second_due,
            count(*) FILTER (WHERE deferrals = 0 AND due_at > epoch) AS later,
            count(*) FILTER (WHERE deferrals > 0) AS deferred,
            count(*) FILTER (WHERE doubts > 0) AS in_doubt,
            min(coalesce(waits_since, CASE WHEN due_at <= epoch THEN due_at END))
                FILTER (WHERE doubts > 0) AS in_doubt_since,
            -- What the sender gave back waits on while its pause lasts; what is in doubt has a
            -- figure of its own.
            min(
                CASE
                    WHEN doubts = 0
                    THEN coalesce(waits_since, CASE WHEN due_at <= epoch THEN due_at END)
                    WHEN due_at <= epoch THEN due_at
                END
            ) FILTER (WHERE deferrals = 0) AS oldest
        FROM mailroom.queue
    ) AS waiting
    CROSS JOIN (
        SELECT
            count(*) AS leases,
            coalesce(sum(pg_catalog.cardinality(tokens)), 0::bigint) AS leased_tokens,
            count(*) FILTER (WHERE ends_at <= epoch) AS lapsed_leases,
            floor(1000::numeric * extract(epoch FROM epoch - min(claimed_at)))::bigint
                AS oldest_lease_ms,
            -- What is tried again waits on meanwhile.
            min((
                SELECT min(item.waits_since)
                FROM ROWS FROM (
                    pg_catalog.unnest(attempts), pg_catalog.unnest(waits_since),
                        pg_catalog.unnest(doubts)
                ) AS item (attempt, waits_since, doubts)
                WHERE item.attempt > 1 AND coalesce(item.doubts, 0::smallint) = 0
            )) AS oldest,
            min((
                SELECT min(item.waits_since)
                FROM ROWS FROM (pg_catalog.unnest(waits_since), pg_catalog.unnest(doubts))
                    AS item (waits_since, doubts)
                WHERE item.doubts > 0
            )) AS in_doubt_since,
            coalesce(sum((SELECT count(*) FROM pg_catalog.unnest(doubts) AS doubt
                WHERE doubt > 0)), 0)
                ::bigint AS in_doubt
        FROM mailroom.leases
    ) AS claimed
    CROSS JOIN (
        SELECT
            count(*) FILTER (WHERE NOT is_suppressed) AS total,
            count(*) FILTER (WHERE NOT is_suppressed AND died_at > epoch - interval '1 hour')
                AS last_hour,
            count(*) FILTER (WHERE is_suppressed) AS suppressed
        FROM mailroom.dead_letters
    ) AS given_up
    CROSS JOIN (
        SELECT count(*) AS total, count(*) FILTER (WHERE died_at > epoch - interval '1 hour')
            AS last_hour
        FROM mailroom.dead_letters
        WHERE is_in_doubt
    ) AS maybe_delivered
    CROSS JOIN LATERAL (
        SELECT
            count(*) FILTER (WHERE is_alive) AS alive,
            count(*) FILTER (WHERE NOT is_alive) AS lost,
            floor(1000::numeric * extract(epoch FROM epoch - min(state_since) FILTER (
                WHERE is_alive AND state IN ('unanswered', 'failing', 'open', 'half_open')
            )))::bigint AS unavailable_ms,
            coalesce(bool_and(present.token_format = 'v1') FILTER (WHERE is_alive), false)
                AS sign_v1_only,
            count(DISTINCT present.token_format) FILTER (WHERE is_alive) AS formats,
            count(*) FILTER (WHERE is_alive AND own.name <> coalesce(present.installation, ''))
                AS misnamed,
            coalesce(
                json_agg(
                    json_build_object(
                        'name', present.name,
                        'is_alive', is_alive,
                        'token_format', present.token_format,
                        'seen_ms', floor(1000::numeric * extract(epoch
                        FROM epoch - seen_at))::bigint,
                        'state', state,
                        'since', to_char(state_since AT TIME ZONE 'UTC',
                        'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                        'state_ms', floor(1000::numeric * extract(epoch
                        FROM epoch - state_since))::bigint,
                        'reason', state_reason
                    )
                    ORDER BY started_at, holder
                ),
                '[]'::json
            ) AS list
        FROM mailroom.present_collectors(epoch) AS present
    ) AS known;
END;
$$;

COMMENT ON FUNCTION mailroom.status() IS
    'For operators: how many tokens are due, by priority, how many will be later, since how many '
    'milliseconds the oldest is due; batches that are claimed, their tokens, those whose lease has '
    'lapsed, since how many milliseconds the oldest is claimed; deferred tokens; dead letters, in '
    'all and of the last hour, those whose address is suppressed apart; tokens that expired '
    'unsent, in all of the log and within the last hour; and since when, in seconds of the Unix '
    'epoch, the log is complete; collectors that are alive and that are missed, since how many '
    'milliseconds a sender has been unavailable, and each collector with the state of its sender. '
    'A token that the sender gave back because it was unavailable is due since it was due first. '
    'Tokens that wait or are claimed after an attempt in doubt, attempts that ended in doubt '
    'within the last hour, and dead letters that may have been delivered; since how many '
    'milliseconds the first of those tokens was due, and those dead letters of the last hour. '
    'Deferred tokens that no collector can sign; how many formats the collectors sign, and which '
    'of them is the default; the installation''s name, how many collectors have another one or '
    'none, and whether the queue is bound to another cluster.';

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
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
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

    IF pruned > 0::bigint THEN
        UPDATE mailroom.installation SET log_complete_since = before
            WHERE log_complete_since < before;
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.prune_attempts(timestamptz, bigint, integer) IS
    'Deletes delivery attempts and receipts from before a time, at least a day ago, in some blocks '
    'of the log and of the receipts; answers how many attempts, '
    'and how many blocks the larger of the two has.';

CREATE FUNCTION mailroom.prune_dead_letters(before timestamptz, most integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    pruned bigint;
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
    RETURN pruned;
END;
$$;

COMMENT ON FUNCTION mailroom.prune_dead_letters(timestamptz, integer) IS
    'Deletes dead letters that were given up before a time, at least a day ago, and cannot be sent '
    'any more; answers how many.';

CREATE SEQUENCE mailroom.longest_limit MINVALUE 0 START 0;

COMMENT ON SEQUENCE mailroom.longest_limit IS
    'Not counted up: the longest time, in seconds, within which request() was to count tokens.';

-- By id, which is nearly the order in which they were made: where none of the tokens of a step is
-- so old, the steps that follow find none either. What still waits is left for a claim, and what
-- can be put back for an operator.
CREATE FUNCTION mailroom.prune_tokens(before timestamptz, after_id bigint, most integer,
    OUT pruned bigint, OUT through_id bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
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
                AND id NOT IN (SELECT pg_catalog.unnest(leases.tokens) FROM mailroom.leases)
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING id
    ),
    emptied AS (
        DELETE FROM mailroom.payloads WHERE token = ANY (ARRAY(SELECT id FROM gone))
    )
    SELECT count(*) INTO pruned FROM gone;

    DELETE FROM mailroom.idempotency_keys
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM mailroom.idempotency_keys
        WHERE expires_at < epoch
        LIMIT most
        FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    most_forgotten := greatest(most_forgotten, forgotten);

    DELETE FROM mailroom.browser_codes
    WHERE binding = ANY (ARRAY(
        SELECT binding FROM mailroom.browser_codes
        WHERE expires_at < epoch
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
    'id, unless they are queued, leased or a dead letter, or request() has to count them; and '
    'idempotency keys and browsers'' codes whose time is over. Answers how many tokens, and the id '
    'to go on after, null at the end.';

CREATE FUNCTION mailroom.tokens_of(subject_id text, address text) RETURNS bigint[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN ARRAY(
        SELECT id FROM mailroom.issued_tokens AS tokens
        WHERE subject_id = tokens_of.subject_id
        UNION ALL
        SELECT id FROM mailroom.issued_tokens AS tokens
        WHERE tokens_of.address IS NOT NULL
            AND subject_id IS NULL
            AND mailroom.normal_address(recipient_email) =
                mailroom.normal_address(tokens_of.address)
    );
END;
$$;

REVOKE ALL ON FUNCTION mailroom.tokens_of(text, text) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.tokens_of(text, text) IS
    'The tokens of a subject and, if an address is given, those for it that have no subject.';

-- Receipts outlive tokens: those of the subject's addresses, unless their token is somebody else's.
CREATE FUNCTION mailroom.receipts_of(tokens bigint[], address text) RETURNS bigint[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    key bytea := (SELECT address_key FROM mailroom.installation);
    hashes bytea[] := ARRAY(
        SELECT mailroom.address_hash(known.recipient_email, key)
        FROM mailroom.issued_tokens AS known
        WHERE id = ANY (receipts_of.tokens) AND recipient_email IS NOT NULL
        UNION
        SELECT mailroom.address_hash(receipts_of.address, key) WHERE receipts_of.address IS NOT NULL
    );
BEGIN
    RETURN ARRAY(
        SELECT id FROM mailroom.receipts WHERE token = ANY (receipts_of.tokens)
        UNION
        SELECT receipts.id
        FROM mailroom.receipts
        WHERE address_hash = ANY (hashes)
            AND NOT EXISTS (SELECT FROM mailroom.issued_tokens AS known
                WHERE known.id = receipts.token)
    );
END;
$$;

REVOKE ALL ON FUNCTION mailroom.receipts_of(bigint[], text) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.receipts_of(bigint[], text) IS
    'Ids of the receipts of tokens and, of tokens that were pruned, of the same addresses or of '
    'another one.';

-- A claim that has a token already hands it over; nothing that comes back of it is kept or sent
-- again, because its row is gone.
--
-- Locks, after the subject's row: its dead letters, its tokens, then what hangs on them.
CREATE FUNCTION mailroom.forget(subject_id text, address text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    erased bigint[];
    receipt_ids bigint[];
    pruned bigint[];
    nobodys bigint[];
    bindings bytea[];
    addresses text[];
BEGIN
    IF coalesce(forget.subject_id, mailroom.normal_address(forget.address)) IS NULL THEN
        RAISE EXCEPTION 'mailroom.forget(): there is neither a subject_id nor an address'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    -- First, and waited for: what somebody is just putting back gets a new token, which is found
    -- then.
    DELETE FROM mailroom.dead_letters
    WHERE token = ANY (mailroom.tokens_of(forget.subject_id, forget.address));

    -- Whoever is just using one is waited for, too.
    erased := ARRAY(
        SELECT id FROM mailroom.issued_tokens AS tokens
        WHERE id = ANY (mailroom.tokens_of(forget.subject_id, forget.address))
        ORDER BY id
        FOR UPDATE
    );

    SELECT
        array_agg(DISTINCT binding) FILTER (WHERE binding IS NOT NULL),
        array_agg(DISTINCT coalesce(mailroom.normal_address(recipient_email), recipient_email))
            FILTER (WHERE subject_id IS NULL),
        array_agg(id) FILTER (WHERE subject_id IS NULL)
    INTO bindings, addresses, nobodys
    FROM mailroom.issued_tokens AS tokens
    WHERE id = ANY (erased);

    receipt_ids := mailroom.receipts_of(erased, forget.address);
    pruned := ARRAY(SELECT DISTINCT token FROM mailroom.receipts WHERE id = ANY (receipt_ids));
    -- Before the log, as pruning does.
    DELETE FROM mailroom.receipts WHERE id = ANY (receipt_ids);

    -- What a server said can name somebody without an address. Rows with a reason have one token.
    UPDATE mailroom.delivery_log AS log
    SET reason = NULL
    FROM (SELECT token FROM pg_catalog.unnest(erased || pruned) AS token GROUP BY token) AS gone
    WHERE log.tokens[1] / 256 = gone.token / 256 AND log.tokens = ARRAY[gone.token]
        AND reason IS NOT NULL;

    PERFORM mailroom.withdraw(erased, 'its subject was forgotten');
    DELETE FROM mailroom.payloads WHERE token = ANY (erased);

    IF to_regclass('mailroom.adopted_tokens') IS NOT NULL THEN
        DELETE FROM mailroom.adopted_tokens WHERE id = ANY (erased);
    END IF;

    DELETE FROM mailroom.issued_tokens AS tokens WHERE id = ANY (erased);
    DELETE FROM mailroom.browser_codes WHERE binding = ANY (bindings);
    DELETE FROM mailroom.code_failures
    WHERE subject = ANY (
        addresses || ARRAY[forget.subject_id, mailroom.normal_address(forget.address)]
    );
    DELETE FROM mailroom.idempotency_keys WHERE subject_id = forget.subject_id;

    -- Keys of those that have no subject are found by their token alone: all keys are read.
    IF nobodys IS NOT NULL THEN
        DELETE FROM mailroom.idempotency_keys WHERE subject_id IS NULL AND token = ANY (nobodys);
    END IF;

    RETURN cardinality(erased);
END;
$$;

COMMENT ON FUNCTION mailroom.forget(text, text) IS
    'For whoever answers for personal data, a right of its own: erases all that is kept of a '
    'subject and, if an address is given, of mails to it that have no subject. Its mails are not '
    'sent any more, its links are no longer good. The delivery log keeps ids and outcomes; a '
    'suppressed address stays suppressed until lift_suppression(). Answers how many tokens were '
    'erased.';

CREATE FUNCTION mailroom.export_subject(subject_id text, address text DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off
SET timezone = 'UTC' AS $$
#variable_conflict use_column
DECLARE
    known bigint[] := mailroom.tokens_of(export_subject.subject_id, export_subject.address);
    addresses text[] := ARRAY(
        SELECT mailroom.normal_address(recipient_email)
        FROM mailroom.issued_tokens AS tokens
        WHERE id = ANY (known)
        UNION
        SELECT mailroom.normal_address(export_subject.address)
    );
BEGIN
    RETURN jsonb_build_object(
        'subject_id', export_subject.subject_id,
        'exported_at', mailroom.clock(),
        'mails', coalesce((
            SELECT jsonb_agg(
                jsonb_build_object(
                    'token', id,
                    'action', (SELECT name FROM mailroom.actions WHERE number = action),
                    'recipient_email', recipient_email,
                    'recipient_name', recipient_name,
                    'language', language,
                    'payload', (SELECT payload FROM mailroom.payloads WHERE token = id),
                    'created_at', to_timestamp(created_at::double precision),
                    'expires_at', to_timestamp(expires_at::double precision),
                    'used_at', to_timestamp(consumed_at::double precision),
                    'cancelled_at', to_timestamp(cancelled_at::double precision),
                    'attempts', coalesce((
                        SELECT jsonb_agg(jsonb_build_object(
                            'happened_at', happened_at, 'attempt', attempt, 'outcome', outcome,
                            'reason', reason
                        ))
                        FROM mailroom.history(id)
                    ), '[]')
                )
                ORDER BY id
            )
            FROM mailroom.issued_tokens AS tokens
            WHERE id = ANY (known)
        ), '[]'),
        'receipts', coalesce((
            SELECT jsonb_agg(
                jsonb_build_object(
                    'token', token, 'attempt', attempt, 'accepted_at', accepted_at,
                    'action', (SELECT name FROM mailroom.actions WHERE number = action),
                    'provider', provider, 'message_id', message_id, 'answer', answer
                )
                ORDER BY accepted_at, id
            )
            FROM mailroom.receipts
            WHERE id = ANY (mailroom.receipts_of(known, export_subject.address))
        ), '[]'),
        'idempotency_keys', coalesce((
            SELECT jsonb_agg(
                jsonb_build_object(
                    'key', key, 'token', token,
                    'action', (SELECT name FROM mailroom.actions WHERE number = action),
                    'expires_at', to_timestamp(expires_at::double precision)
                )
                ORDER BY key, action
            )
            FROM mailroom.idempotency_keys
            WHERE subject_id = export_subject.subject_id
        ), '[]'),
        'wrong_codes', coalesce((
            SELECT sum(failures) FROM mailroom.code_failures
            WHERE subject = ANY (
                ARRAY(
                    SELECT coalesce(mailroom.normal_address(recipient_email), recipient_email)
                    FROM mailroom.issued_tokens AS tokens
                    WHERE id = ANY (known) AND subject_id IS NULL
                )
                || ARRAY[
                    export_subject.subject_id, mailroom.normal_address(export_subject.address)
                ]
            )
        ), 0),
        'suppressions', coalesce((
            SELECT jsonb_agg(
                jsonb_build_object(
                    'address', suppression.address, 'reason', reason, 'provider', provider,
                    'detail', detail, 'suppressed_at', suppressed_at
                )
                ORDER BY suppression.address
            )
            FROM mailroom.suppressions AS suppression
            WHERE suppression.address = ANY (addresses)
        ), '[]')
    );
END;
$$;

COMMENT ON FUNCTION mailroom.export_subject(text, text) IS
    'For whoever answers for personal data, a right of its own: all that is kept of a subject and, '
    'if an address is given, of mails to it that have no subject, as JSON. Without secrets and '
    'codes.';

DO $$
DECLARE
    signature text;
BEGIN
    FOREACH signature IN ARRAY ARRAY[
        'history(bigint)', 'trace(bigint[], text)', 'retry(bigint[])', 'retry_all(boolean)',
        'discard(bigint[])', 'discard_all(interval)',
        'suppress(text, text, text, text)', 'lift_suppression(text)', 'status()',
        'prune_attempts(timestamptz, bigint, integer)',
        'prune_dead_letters(timestamptz, integer)', 'prune_tokens(timestamptz, bigint, integer)',
        'forget(text, text)', 'export_subject(text, text)'
    ] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION mailroom.%s FROM PUBLIC', signature);
    END LOOP;
END;
$$;

SELECT mailroom.revoke_default_privileges();

COMMIT;

-- Feature: collectors claim batches of what is due, and settle or release them,
-- by three statements.
--
-- The functions that collectors call run with the rights of their owner, so that whoever has a
-- collector's password reads what is due and nothing else: neither addresses nor secrets of used
-- tokens. Polymorphic functions, for which one for exactly these types would be a better match, are
-- named with their schema.
--
-- Their plans must not depend on how full the tables were when they were planned: an index is right
-- in every case.
--
-- Locks: no table; some milliseconds.

BEGIN;

-- How long a refused token waits. Doubling from the first pause up to a minute, or to a part of its
-- life, up to an hour; between half and all of that,
-- so that what failed together does not come back together.
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

REVOKE ALL ON FUNCTION mailroom.pause_after(bigint, bigint, double precision) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.pause_after(bigint, bigint, double precision) IS
    'Pause in milliseconds after so many refusals; the first pause is in milliseconds, the '
    'lifetime in seconds.';

CREATE FUNCTION mailroom.doubtful(reason text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 'may have been delivered' || coalesce(': ' || reason, '');

REVOKE ALL ON FUNCTION mailroom.doubtful(text) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.doubtful(text) IS
    'Why a token is given up of which nobody knows whether it was delivered.';

-- Settles batches of which not all tokens were sent; answers which tokens were given up, also when
-- that is repeated. A refusal counts only where the collector says so, and an outage of the whole
-- sender never does: it would kill the mails of links that live a quarter of an hour. Tokens that
-- live long are tried again at most once an hour. Kinds of exceptions: 'dead'; 'refused', for now;
-- 'failed', also for now, but only max_attempts times; 'unavailable', back to its place or after
-- its wait, and no failure, because the sender was away or has not tried the mail; 'unanswered';
-- 'in_doubt': nobody knows whether the provider has the mail, so it is repeated after one and after
-- five minutes, however often it is refused between, and the third doubt makes it a dead letter
-- that may have been delivered; 'unknown_address': dead, and its address is suppressed if the
-- collector has the right to do so.
CREATE FUNCTION mailroom.settle_exceptions(
    settled uuid[],
    exception_batches uuid[],
    exception_tokens bigint[],
    exception_kinds text[],
    exception_waits bigint[],
    exception_reasons text[],
    max_attempts integer,
    backoff bigint,
    too_late bigint
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
BEGIN
    -- As in settle(), which knows afterwards whether it has written anything.
    PERFORM pg_logical_emit_message(true, 'mailroom', '');

    WITH
    gone AS (
        DELETE FROM mailroom.leases WHERE batch = ANY (settled) RETURNING *
    ),
    exceptions AS (
        SELECT *
        FROM ROWS FROM (
            pg_catalog.unnest(exception_batches), pg_catalog.unnest(exception_tokens),
                pg_catalog.unnest(exception_kinds),
            pg_catalog.unnest(exception_waits), pg_catalog.unnest(exception_reasons)
        ) AS exception (batch, token, kind, wait, reason)
    ),
    items AS MATERIALIZED (
        SELECT
            gone.holder,
            gone.batch,
            gone.due_at,
            item.*,
            exceptions.kind,
            exceptions.wait,
            exceptions.reason,
            known.expires_at,
            known.is_void,
            coalesce(item.all_doubts, 0::smallint)
                + CASE WHEN exceptions.kind = 'in_doubt' THEN 1 ELSE 0 END AS doubts,
            -- In seconds. What expires before its pause is over waits until then,
            -- so that it is counted then.
            greatest(known.expires_at::double precision - too_late::double precision,
                0::double precision) AS lifetime,
            -- Not the failures, which a refusal need not be.
            -- A pause stops growing long before twenty.
            (
                SELECT count(*)
                FROM (
                    SELECT
                    FROM mailroom.delivery_log
                    WHERE tokens[1] = item.token
                        AND outcome = 'error'
                        AND exceptions.kind IN ('refused', 'failed')
                    LIMIT 20
                ) AS refusal
            ) AS refusals,
            CASE
                WHEN exceptions.kind IS NULL THEN 'sent'
                -- Deleted meanwhile: nobody is to get it, and nothing new is kept of it.
                WHEN known.is_void IS NULL THEN 'cancelled'
                WHEN exceptions.kind = 'in_doubt' AND coalesce(item.all_doubts,
                    0::smallint) >= 2 THEN
                    -- Who has used the link has the mail.
                    CASE WHEN known.is_open THEN 'dead' ELSE 'cancelled' END
                WHEN exceptions.kind = 'failed' AND item.failures::integer + 1 >= max_attempts
                    THEN 'dead'
                WHEN exceptions.kind IN ('refused', 'failed') THEN 'error'
                WHEN exceptions.kind = 'unavailable' THEN 'unanswered'
                WHEN exceptions.kind = 'unknown_address' THEN 'dead'
                ELSE exceptions.kind
            END AS outcome
        FROM gone
        CROSS JOIN LATERAL ROWS FROM (
            pg_catalog.unnest(gone.tokens), pg_catalog.unnest(gone.attempts),
                pg_catalog.unnest(gone.failures),
            pg_catalog.unnest(gone.priorities), pg_catalog.unnest(gone.secrets),
                pg_catalog.unnest(gone.codes),
            pg_catalog.unnest(gone.waits_since), pg_catalog.unnest(gone.doubts)
        ) AS item (token, attempt, failures, priority, secret, code, waits_since, all_doubts)
        LEFT JOIN exceptions ON exceptions.batch = gone.batch AND exceptions.token = item.token
        LEFT JOIN LATERAL (
            SELECT
                expires_at,
                consumed_at IS NOT NULL OR cancelled_at IS NOT NULL OR expires_at <= too_late
                    AS is_void,
                consumed_at IS NULL AND cancelled_at IS NULL AS is_open
            FROM mailroom.issued_tokens AS tokens
            WHERE id = item.token AND exceptions.kind IS NOT NULL
        ) AS known ON true
    ),
    logged AS (
        INSERT INTO mailroom.delivery_log (tokens, happened_at, holder, batch, attempt, outcome,
            reason)
        SELECT
            ARRAY[token], epoch, holder, batch, attempt, outcome::mailroom.outcome,
            CASE
                WHEN kind IS NOT NULL AND is_void IS NULL THEN 'it was deleted'
                WHEN kind = 'in_doubt' AND outcome = 'dead' THEN mailroom.doubtful(reason)
                ELSE reason
            END
        FROM items
    ),
    done AS (
        DELETE FROM mailroom.payloads
        WHERE token = ANY (ARRAY(
            SELECT token FROM mailroom.payloads WHERE token = ANY (ARRAY(SELECT token FROM items
                WHERE outcome IN ('sent', 'cancelled')))
            FOR UPDATE SKIP LOCKED
        ))
    ),
    given_up AS (
        INSERT INTO mailroom.dead_letters (
            token, died_at, expires_at, attempts, failures, priority, secret, code, reason, doubts,
            is_suppressed
        )
        SELECT
            token, epoch, coalesce(expires_at, 0::bigint), attempt,
            CASE kind WHEN 'in_doubt' THEN failures ELSE least(failures::integer + 1,
                32767)::smallint END,
            priority, CASE WHEN NOT is_void THEN secret END, CASE WHEN NOT is_void THEN code END,
            CASE kind WHEN 'in_doubt' THEN mailroom.doubtful(reason) ELSE coalesce(reason, '') END,
            least(doubts, 32767)::smallint, kind = 'unknown_address' AND suppresses
        FROM items
        WHERE outcome = 'dead'
        ON CONFLICT DO NOTHING
    )
    INSERT INTO mailroom.queue (
        token, due_at, attempts, failures, priority, put_off_at, secret, code, waits_since, doubts
    )
    SELECT
        token,
        CASE
            -- To its place, which lies in the future only if the clock was set back.
            WHEN outcome = 'unanswered' AND wait IS NULL THEN least(due_at, mailroom.clock())
            ELSE epoch + interval '1 millisecond' * least(
                CASE
                    WHEN outcome = 'in_doubt'
                    THEN CASE doubts WHEN 1 THEN 60000::double precision
                        ELSE 300000::double precision END
                    -- Others come first. At least a thousandth of its life, so that a token of days
                    -- is not tried all the time, but of that at most a minute: it may be the
                    -- outage's fault, which can be over any moment.
                    WHEN outcome = 'unanswered' AND wait > 1000::bigint
                    THEN greatest(wait::double precision, least(lifetime, 60000::double precision))
                    -- As the sender wants it, within a day.
                    WHEN wait IS NOT NULL THEN least(wait, 86400000::bigint)::double precision
                    ELSE mailroom.pause_after(refusals, backoff, lifetime)
                END,
                lifetime * 1000::double precision
            )
        END,
        attempt,
        CASE WHEN kind = 'failed' THEN least(failures::integer + 1, 32767)::smallint
            ELSE failures END,
        priority,
        CASE WHEN outcome IN ('error', 'in_doubt') OR wait IS NOT NULL THEN epoch END,
        secret,
        code,
        -- A refusal of its own is no outage: it waits anew. What is in doubt waits until it is
        -- known or listed.
        CASE WHEN kind <> 'refused' OR doubts > 0 THEN coalesce(waits_since, due_at) END,
        least(doubts, 32767)::smallint
    FROM items
    WHERE outcome IN ('error', 'unanswered', 'in_doubt')
    ON CONFLICT DO NOTHING;

    IF suppresses THEN
        PERFORM mailroom.suppress(known.recipient_email, 'bounce', 'smtp', log.reason)
        FROM ROWS FROM (pg_catalog.unnest(exception_tokens), pg_catalog.unnest(exception_kinds))
            AS exception (token, kind)
        JOIN mailroom.delivery_log AS log ON tokens[1] = exception.token AND outcome = 'dead'
            AND log.batch = ANY (settled)
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

REVOKE ALL ON FUNCTION mailroom.settle_exceptions(uuid[], uuid[], bigint[], text[], bigint[],
    text[], integer, bigint, bigint) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.settle_exceptions(uuid[], uuid[], bigint[], text[], bigint[], text[],
    integer, bigint, bigint) IS
    'Settles batches of which not all tokens were sent, and answers which tokens were given up.';

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
            backoff, mailroom.too_late(mailroom.clock(), min_lifetime)
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
    INSERT INTO mailroom.delivery_log (tokens, happened_at, holder, batch, attempt, outcome)
    SELECT pg_catalog.array_agg(item.token), mailroom.clock(), holder, batch, item.attempt, 'sent'
    FROM gone
    CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(tokens), pg_catalog.unnest(attempts))
        AS item (token, attempt)
    GROUP BY holder, batch, item.attempt, item.token / 256;

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

CREATE FUNCTION mailroom.too_late(epoch timestamptz, min_lifetime bigint) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN floor(extract(epoch FROM epoch))::bigint + greatest(min_lifetime, 1::bigint) - 1::bigint;

COMMENT ON FUNCTION mailroom.too_late(timestamptz, bigint) IS
    'Tokens that expire at this second or before are not sent any more.';

-- Nothing of them was sent, so that was no delivery attempt.
CREATE FUNCTION mailroom.release(collector bigint, released uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    WITH
    gone AS (
        DELETE FROM mailroom.leases WHERE batch = ANY (released) AND holder = collector RETURNING *
    )
    INSERT INTO mailroom.queue (
        token, due_at, attempts, failures, priority, secret, code, waits_since, doubts
    )
    SELECT
        item.token, least(gone.due_at, mailroom.clock()), item.attempt - 1, item.failures,
        item.priority, item.secret, item.code, item.waits_since, coalesce(item.doubts, 0::smallint)
    FROM gone
    CROSS JOIN LATERAL ROWS FROM (
        pg_catalog.unnest(gone.tokens), pg_catalog.unnest(gone.attempts),
            pg_catalog.unnest(gone.failures),
        pg_catalog.unnest(gone.priorities), pg_catalog.unnest(gone.secrets),
            pg_catalog.unnest(gone.codes),
        pg_catalog.unnest(gone.waits_since), pg_catalog.unnest(gone.doubts)
    ) AS item (token, attempt, failures, priority, secret, code, waits_since, doubts)
    ON CONFLICT DO NOTHING;
END;
$$;

COMMENT ON FUNCTION mailroom.release(bigint, uuid[]) IS
    'For collectors: gives batches back of which nothing was sent.';

-- Every seventh place is kept for one of the second priority, if one waits: of a hundred rows at
-- least ten are, also where several collectors count for themselves.
--
-- Locks: rows of the queue; those that another collector is just claiming are passed over.
CREATE FUNCTION mailroom.pick(
    looks integer, turn integer, first_since timestamptz, second_since timestamptz,
        until timestamptz,
    takes_doubtful boolean,
    OUT places tid[], OUT first_through timestamptz, OUT second_through timestamptz
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    reserved integer := (turn + looks) / 7;
    second tid[];
BEGIN
    SELECT coalesce(array_agg(place), '{}'), max(due_at) INTO places, first_through
    FROM (
        SELECT ctid AS place, due_at FROM mailroom.queue
        WHERE priority = 0::smallint AND due_at >= first_since AND due_at <= until
            AND (takes_doubtful OR doubts = 0)
        ORDER BY due_at
        LIMIT looks - reserved
        FOR UPDATE SKIP LOCKED
    ) AS locked;

    IF cardinality(places) < looks THEN
        SELECT coalesce(array_agg(place), '{}'), max(due_at) INTO second, second_through
        FROM (
            SELECT ctid AS place, due_at FROM mailroom.queue
            WHERE priority = 1::smallint AND due_at >= second_since AND due_at <= until
                AND (takes_doubtful OR doubts = 0)
            ORDER BY due_at
            LIMIT looks - cardinality(places)
            FOR UPDATE SKIP LOCKED
        ) AS locked;

        -- Fewer of the second priority wait than places were kept: the first one gets the rest.
        IF cardinality(places) + reserved = looks AND cardinality(second) < reserved THEN
            SELECT places || coalesce(array_agg(place), '{}'), coalesce(max(due_at), first_through)
                INTO places, first_through
            FROM (
                SELECT ctid AS place, due_at FROM mailroom.queue
                WHERE priority = 0::smallint AND due_at >= coalesce(first_through, first_since)
                    AND due_at <= until AND ctid <> ALL (places)
                    AND (takes_doubtful OR doubts = 0)
                ORDER BY due_at
                LIMIT reserved - cardinality(second)
                FOR UPDATE SKIP LOCKED
            ) AS locked;
        END IF;

        IF cardinality(places) > 0 AND cardinality(second) > 0 THEN
            places := ARRAY(
                SELECT place
                FROM (
                    SELECT place, (turn + nth - 1) * 7 / 6 AS slot
                        FROM pg_catalog.unnest(places) WITH ORDINALITY AS first (place, nth)
                    UNION ALL
                    SELECT place, 7 * nth - 1 FROM pg_catalog.unnest(second) WITH ORDINALITY
                        AS second (place, nth)
                ) AS both_priorities
                ORDER BY slot
            );
        ELSE
            places := places || second;
        END IF;
    END IF;
END;
$$;

REVOKE ALL ON FUNCTION mailroom.pick(
    integer, integer, timestamptz, timestamptz, timestamptz, boolean
) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.pick(integer, integer, timestamptz, timestamptz, timestamptz,
    boolean) IS
    'Locks rows of the queue, the oldest of each priority first, and only on demand such as may '
    'have been delivered already; answers where they lie, in the order in which they go out, and '
    'the latest due time of each priority.';

-- Addresses are kept as a hash with a key that only the owner reads: whoever reads a receipt can
-- neither read the address nor try addresses.
CREATE FUNCTION mailroom.address_hash(address text, key bytea) RETURNS bytea
LANGUAGE sql STABLE
RETURN substr(sha256(key || mailroom.to_utf8(mailroom.normal_address(address))), 1, 16);

REVOKE ALL ON FUNCTION mailroom.address_hash(text, bytea) FROM PUBLIC;

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

REVOKE ALL ON FUNCTION mailroom.keep_receipts(uuid[], bigint[], text[], text[], text[]) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.keep_receipts(uuid[], bigint[], text[], text[], text[]) IS
    'Keeps what providers said of mails that they accepted, of batches that are still leased.';

CREATE TYPE mailroom.candidate AS (
    place tid, token bigint, due_at timestamptz, attempt integer, failures smallint,
        priority smallint, secret bytea, code text,
    id bigint, action smallint, subject_id text, recipient_email text, recipient_name text,
        language text, expires_at bigint, binding bytea,
    has_payload boolean, is_void boolean, eligibility text, proves_address boolean,
        waits_since timestamptz, doubts smallint
);

COMMENT ON TYPE mailroom.candidate IS
    'A row of the queue and where it lies, with its token, whose id is null if it is gone, and '
    'what its action needs.';

CREATE TYPE mailroom.judgement AS (
    place tid, token bigint, due_at timestamptz, attempt integer, failures smallint,
        priority smallint, secret bytea, code text,
    action smallint, email text, name text, language text, expires_at bigint, binding bytea,
        payload text, verdict text, fault text,
    waits_since timestamptz, doubts smallint
);

COMMENT ON TYPE mailroom.judgement IS
    'Whether a candidate goes out: eligible, cancelled, expired, unsignable, ineligible or '
    'suppressed, and else why; with all that goes out.';

-- This function and those below have no search path of their own and are not volatile, so that they
-- become parts of the statement that calls them. OFFSET 0 keeps look-ups by key for each row.
CREATE FUNCTION mailroom.candidates(places tid[]) RETURNS SETOF mailroom.candidate
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT
        asked.place,
        queued.token, queued.due_at, queued.attempts + 1, queued.failures, queued.priority,
            queued.secret, queued.code,
        known.id, known.action, known.subject_id, known.recipient_email, known.recipient_name,
            known.language, known.expires_at,
        known.binding, known.has_payload, known.is_void,
        actions.eligibility, actions.proves_address,
        coalesce(queued.waits_since, queued.due_at), queued.doubts
    FROM pg_catalog.unnest(places) AS asked (place)
    CROSS JOIN LATERAL (
        SELECT token, due_at, attempts, failures, priority, secret, code, waits_since, doubts
            FROM mailroom.queue WHERE ctid = asked.place
        OFFSET 0
    ) AS queued
    LEFT JOIN LATERAL (
        SELECT
            id, action, subject_id, recipient_email, recipient_name, language, expires_at, binding,
                has_payload,
            consumed_at IS NOT NULL OR cancelled_at IS NOT NULL AS is_void
        FROM mailroom.issued_tokens
        WHERE id = queued.token
        OFFSET 0
    ) AS known ON true
    LEFT JOIN mailroom.actions ON actions.number = known.action;
END;

REVOKE ALL ON FUNCTION mailroom.candidates(tid[]) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.candidates(tid[]) IS
    'The rows of the queue at these places, with their tokens.';

CREATE FUNCTION mailroom.judge_candidate(
    candidate mailroom.candidate, present_email text, present_name text, fault text,
        too_late bigint, signable smallint[], binds boolean
) RETURNS SETOF mailroom.judgement
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT
        (candidate).place, (candidate).token, (candidate).due_at, (candidate).attempt,
            (candidate).failures, (candidate).priority,
        (candidate).secret, (candidate).code, (candidate).action, recipient.email, recipient.name,
            (candidate).language,
        (candidate).expires_at, (candidate).binding,
        CASE WHEN (candidate).has_payload THEN (SELECT payload::text FROM mailroom.payloads
            WHERE token = (candidate).id) END,
        CASE
            WHEN (candidate).id IS NULL OR (candidate).is_void THEN 'cancelled'
            WHEN (candidate).expires_at <= too_late THEN 'expired'
            WHEN (candidate).action <> ALL (signable) OR NOT binds
                AND (candidate).binding IS NOT NULL THEN 'unsignable'
            WHEN (candidate).eligibility IS NOT NULL AND present_email IS NULL THEN 'ineligible'
            WHEN recipient.is_other OR NOT recipient.is_address THEN 'cancelled'
            WHEN suppression.reason IS NOT NULL THEN 'suppressed'
            ELSE 'eligible'
        END,
        CASE
            WHEN (candidate).id IS NULL THEN 'it was deleted'
            WHEN (candidate).is_void THEN 'it was used or cancelled'
            WHEN (candidate).expires_at <= too_late THEN 'it expired before it could be sent'
            WHEN (candidate).action <> ALL (signable) THEN
                'their action is '
                || (SELECT name FROM mailroom.actions WHERE number = (candidate).action)
            WHEN NOT binds AND (candidate).binding IS NOT NULL THEN 'they are bound to a browser'
            WHEN (candidate).eligibility IS NOT NULL AND present_email IS NULL THEN fault
            WHEN recipient.is_other THEN 'its address is not the one that its subject has now'
            WHEN NOT recipient.is_address THEN
                'the address of its account is not one that mail can be sent to'
            ELSE 'its address is suppressed (' || suppression.reason || ')'
        END,
        (candidate).waits_since,
        (candidate).doubts
    FROM (
        SELECT
            coalesce((candidate).recipient_email, present_email) AS email,
            coalesce((candidate).recipient_name, present_name) AS name,
            -- It was enqueued for another address, or the subject's changed in a transaction that
            -- did not see this token and so did not cancel it.
            -- Another spelling of one address is none.
            (
                (candidate).eligibility IS NOT NULL
                AND (candidate).proves_address
                AND (candidate).recipient_email <> present_email COLLATE "C"
                AND mailroom.normal_address((candidate).recipient_email) IS DISTINCT
                    FROM mailroom.normal_address(present_email)
            ) IS TRUE AS is_other,
            -- What was enqueued is one.
            (candidate).recipient_email IS NOT NULL OR present_email IS NULL
                OR mailroom.is_addressable(present_email) AS is_address
    ) AS recipient
    LEFT JOIN LATERAL (
        -- The second condition is evaluated once:
        -- where no address is suppressed, none is looked up.
        SELECT reason FROM mailroom.suppressions
        WHERE address = mailroom.normal_address(recipient.email)
            AND (SELECT EXISTS (SELECT FROM mailroom.suppressions))
        OFFSET 0
    ) AS suppression ON true;
END;

REVOKE ALL ON FUNCTION mailroom.judge_candidate(mailroom.candidate, text, text, text, bigint,
    smallint[], boolean) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.judge_candidate(mailroom.candidate, text, text, text, bigint,
    smallint[], boolean) IS
    'Judges a candidate by the address and name that its subject has now, null if it is not '
    'eligible, for the reason of fault if there is one.';

-- Predicates of eligibility are asked once an action, and only for what could go out.
CREATE FUNCTION mailroom.judge(places tid[], too_late bigint, signable smallint[], binds boolean)
    RETURNS SETOF mailroom.judgement
LANGUAGE sql STABLE
BEGIN ATOMIC
    WITH
    picked AS MATERIALIZED (
        SELECT * FROM mailroom.candidates(places)
    ),
    answers AS MATERIALIZED (
        SELECT asked.action, answer.*
        FROM (
            SELECT action, eligibility, pg_catalog.array_agg(subject_id) AS subject_ids
            FROM picked
            WHERE eligibility IS NOT NULL AND NOT is_void AND expires_at > too_late
                AND action = ANY (signable)
                AND (binds OR binding IS NULL)
            GROUP BY action, eligibility
        ) AS asked
        CROSS JOIN LATERAL mailroom.ask_eligibility(asked.eligibility, asked.subject_ids) AS answer
    )
    SELECT judged.*
    FROM picked
    LEFT JOIN answers AS answer ON answer.action = picked.action
        AND answer.subject_id = picked.subject_id
    CROSS JOIN LATERAL mailroom.judge_candidate(
        picked::mailroom.candidate, answer.email, answer.name, answer.fault, too_late, signable,
            binds
    ) AS judged;
END;

REVOKE ALL ON FUNCTION mailroom.judge(tid[], bigint, smallint[], boolean) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.judge(tid[], bigint, smallint[], boolean) IS
    'Judges the rows of the queue at these places, in their order.';

CREATE FUNCTION mailroom.judge_without_calls(places tid[], too_late bigint, signable smallint[],
    binds boolean) RETURNS SETOF mailroom.judgement
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT judged.*
    FROM mailroom.candidates(places) AS picked
    CROSS JOIN LATERAL mailroom.judge_candidate(picked, NULL, NULL, 'must be asked', too_late,
        signable, binds) AS judged;
END;

REVOKE ALL ON FUNCTION mailroom.judge_without_calls(tid[], bigint, smallint[], boolean) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.judge_without_calls(tid[], bigint, smallint[], boolean) IS
    'As judge(), but calls no function of eligibility: a candidate for which one must be asked is '
    'ineligible, its fault ''must be asked''.';

-- Most tokens need no call of a function of eligibility. If one does, or accounts cannot be read or
-- are locked, judge() judges all, where an error is that of one action's tokens alone,
-- which are deferred.
CREATE FUNCTION mailroom.judge_all(
    places tid[], too_late bigint, signable smallint[], binds boolean,
        OUT judged mailroom.judgement[], OUT eligible integer
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = 300 AS $$
BEGIN
    BEGIN
        SELECT array_agg(judgement), count(*) FILTER (WHERE judgement.verdict = 'eligible')
        INTO judged, eligible
        FROM mailroom.judge_without_calls(places, too_late, signable, binds) AS judgement;
    EXCEPTION WHEN OTHERS OR assert_failure OR query_canceled THEN
        judged := NULL;
    END;

    IF judged IS NULL
        OR eligible < cardinality(judged)
        AND EXISTS (SELECT FROM pg_catalog.unnest(judged) WHERE verdict = 'ineligible'
            AND fault = 'must be asked')
    THEN
        SELECT array_agg(judgement), count(*) FILTER (WHERE judgement.verdict = 'eligible')
        INTO judged, eligible
        FROM mailroom.judge(places, too_late, signable, binds) AS judgement;
    END IF;

    judged := coalesce(judged, '{}');
END;
$$;

REVOKE ALL ON FUNCTION mailroom.judge_all(tid[], bigint, smallint[], boolean) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.judge_all(tid[], bigint, smallint[], boolean) IS
    'Judges the rows of the queue at these places, in their order, and counts those that go out.';

-- Deferred tokens are looked at again after a pause that doubles from a quarter of a second up to a
-- minute, or to a part of their life.
CREATE FUNCTION mailroom.pass_over(
    collector bigint, epoch timestamptz, too_late bigint, deferred bigint[], cancelled bigint[],
        cancel_reasons text[],
    expired bigint[], suppressed bigint[], suppression_reasons text[]
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_nestloop = on SET enable_hashjoin = off AS $$
#variable_conflict use_column
BEGIN
    UPDATE mailroom.queue
    SET put_off_at = epoch,
        waits_since = CASE WHEN doubts > 0 THEN coalesce(waits_since, due_at) END,
        due_at = epoch + interval '1 millisecond' * mailroom.pause_after(
            deferrals::bigint,
            250,
            (SELECT tokens.expires_at - too_late FROM mailroom.issued_tokens AS tokens
                WHERE tokens.id = queue.token)::double precision
        ),
        deferrals = least(deferrals + 1, 100)::smallint
    WHERE token = ANY (deferred);

    -- What may have been delivered did not expire unsent: it is listed, until somebody looks at it.
    WITH ended AS (
        DELETE FROM mailroom.queue WHERE token = ANY (cancelled || expired)
        RETURNING queue.*, doubts > 0 AND token <> ALL (coalesce(cancelled, '{}')) AS is_in_doubt
    ),
    given_up AS (
        INSERT INTO mailroom.dead_letters (
            token, died_at, expires_at, attempts, failures, priority, reason, doubts
        )
        SELECT
            token, epoch, tokens.expires_at, attempts, failures, priority,
            mailroom.doubtful('it expired after an attempt in doubt'), doubts
        FROM ended
        JOIN mailroom.issued_tokens AS tokens ON tokens.id = token
        WHERE is_in_doubt
        ON CONFLICT DO NOTHING
    )
    INSERT INTO mailroom.delivery_log (tokens, happened_at, holder, attempt, outcome, reason)
    SELECT
        ARRAY[token], epoch, collector, attempts,
        CASE
            WHEN place IS NOT NULL THEN 'cancelled'::mailroom.outcome
            WHEN is_in_doubt THEN 'dead'::mailroom.outcome
            ELSE 'expired'::mailroom.outcome
        END,
        CASE
            WHEN place IS NOT NULL THEN cancel_reasons[place]
            WHEN is_in_doubt THEN mailroom.doubtful('it expired after an attempt in doubt')
            ELSE 'it expired before it could be sent'
        END
    FROM ended
    CROSS JOIN LATERAL pg_catalog.array_position(cancelled, token) AS place;

    DELETE FROM mailroom.payloads
    WHERE token = ANY (ARRAY(
        SELECT token FROM mailroom.payloads WHERE token = ANY (cancelled || expired)
        FOR UPDATE SKIP LOCKED
    ));

    IF cardinality(suppressed) > 0 THEN
        WITH given_up AS (
            DELETE FROM mailroom.queue WHERE token = ANY (suppressed)
            RETURNING queue.*, suppression_reasons[pg_catalog.array_position(suppressed, token)]
                AS reason
        ),
        logged AS (
            INSERT INTO mailroom.delivery_log (tokens, happened_at, holder, attempt, outcome,
                reason)
            SELECT ARRAY[token], epoch, collector, attempts, 'dead', reason FROM given_up
        )
        INSERT INTO mailroom.dead_letters (
            token, died_at, expires_at, attempts, failures, priority, secret, code, reason,
                is_suppressed, doubts
        )
        SELECT
            token, epoch, tokens.expires_at, attempts, failures, priority,
            CASE WHEN is_unused THEN secret END,
            CASE WHEN is_unused THEN code END,
            reason, true, doubts
        FROM given_up
        JOIN mailroom.issued_tokens AS tokens ON tokens.id = token
        -- Used or cancelled while it was claimed, it keeps no secret.
        CROSS JOIN LATERAL (SELECT consumed_at IS NULL AND cancelled_at IS NULL AS is_unused) AS use
        ON CONFLICT DO NOTHING;
    END IF;
END;
$$;

REVOKE ALL ON FUNCTION mailroom.pass_over(bigint, timestamptz, bigint, bigint[], bigint[], text[],
    bigint[], bigint[], text[]) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.pass_over(bigint, timestamptz, bigint, bigint[], bigint[], text[],
    bigint[], bigint[], text[]) IS
    'Defers tokens that may not be sent yet, and takes those out of the queue that may not be sent '
    'at all: suppressed ones become dead letters.';

-- A rate is shared by what these sequences say, which are never counted up. Sequences have no
-- versions: what is set is seen at once and not taken back with the transaction, and nothing grows
-- under an old snapshot.
CREATE SEQUENCE mailroom.rate_spent_until MINVALUE 0 START 0;
CREATE SEQUENCE mailroom.rate_in_use MINVALUE 0 START 0;

COMMENT ON SEQUENCE mailroom.rate_spent_until IS
    'Not counted up: the time from which the next token may be claimed at a rate, in microseconds '
    'since the Unix epoch.';
COMMENT ON SEQUENCE mailroom.rate_in_use IS
    'Not counted up: the rate by which that was reckoned, in tokens a day.';

-- Tokens are spaced evenly; those whose time has come are granted together, up to a second late. So
-- no stretch of time has more than the rate allows for it and a second, and one more. A claim that
-- fails after this, or a collector that dies with it, loses its places.
--
-- Locks: a table that only its owner may lock, so that no other role can stop the claims. An
-- exception releases it with its block, so that nobody waits for the claims and commits of others.
-- The log record of the sequence lies before that of the claim's commit, so that what was claimed
-- is spent also after a crash.
CREATE FUNCTION mailroom.reserve(
    per_day bigint, capacity integer, wanted integer, OUT granted integer, OUT wait bigint,
        OUT other_rate bigint
)
LANGUAGE plpgsql VOLATILE STRICT
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    second constant bigint := 1000000;
    day constant bigint := 86400 * second;
    moment bigint;
    spent_until bigint;
    next_at bigint;
BEGIN
    BEGIN
        LOCK TABLE mailroom.rate_lock IN EXCLUSIVE MODE;
        SELECT last_value INTO spent_until FROM mailroom.rate_spent_until;
        SELECT nullif(last_value, per_day) INTO other_rate FROM mailroom.rate_in_use;
        moment := floor(extract(epoch FROM mailroom.clock()) * second)::bigint;

        -- At most one token ahead: it is further only if the clock was set back, or by a lower
        -- rate. So the highest counts.
        next_at := least(greatest(spent_until, moment - second),
            moment + (day + per_day - 1) / per_day);
        granted := CASE WHEN next_at > moment THEN 0
            ELSE least(wanted, (moment - next_at) * per_day / day + 1) END;
        next_at := next_at + (granted * day + per_day - 1) / per_day;

        IF granted > 0 OR next_at < spent_until THEN
            PERFORM setval('mailroom.rate_spent_until', next_at);
        END IF;
        IF other_rate IS NOT NULL THEN
            PERFORM setval('mailroom.rate_in_use', per_day);
        END IF;

        RAISE EXCEPTION USING ERRCODE = 'MRATE';
    EXCEPTION WHEN SQLSTATE 'MRATE' THEN
        other_rate := nullif(other_rate, 0);
    END;

    -- Until what is claimed at once has its time, but no longer than a fifth of a second, or until
    -- the next one. Who waits for very long looks again now and then: the clock may be set.
    IF next_at > moment AND granted < greatest(wanted, 1) THEN
        wait := ceil(least(
            greatest(next_at - moment, least(second / 5,
                next_at - moment + (capacity - 1) * day / per_day)),
            60 * second
        ) / 1000.0);
    END IF;
END;
$$;

REVOKE ALL ON FUNCTION mailroom.reserve(bigint, integer, integer) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.reserve(bigint, integer, integer) IS
    'Reserves places of a rate: how many of those wanted may be claimed now; if there are fewer, '
    'or none where none is wanted yet, in how many milliseconds to come again, with capacity for '
    'so many; and the rate at which others claim, if it is another.';

-- What is eligible is deleted and leased by one statement, which returns a row for each batch, its
-- tokens in arrays: a loop over tokens, and arrays cut into batches, took half of a claim's time.
-- Rows of the queue are deleted by their ctid.
CREATE FUNCTION mailroom.claim(
    collector bigint,
    wanted uuid[],
    batch_limit integer,
    partial boolean,
    looks integer,
    turn integer,
    first_since timestamptz,
    second_since timestamptz,
    lease bigint,
    min_lifetime bigint,
    signable smallint[],
    binds boolean,
    rate_per_day bigint DEFAULT NULL,
    takes_doubtful boolean DEFAULT true
) RETURNS TABLE (
    batch uuid, tokens bigint[], attempts integer[], actions smallint[], emails bytea[],
        names bytea[], secrets bytea[], codes bytea[],
    expirations bigint[], languages text[], payloads bytea[], bindings bytea[], doubts smallint[],
    looked integer, waiting integer, expired integer, cancelled integer, deferred integer,
        unsignable integer, suppressed integer,
    dead_in_doubt integer,
    reason text, first_through timestamptz, second_through timestamptz, wait bigint,
        other_rate bigint, passed_over text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_memoize = off SET jit = off
SET enable_nestloop = off SET enable_mergejoin = off SET enable_hashagg = off
SET work_mem = '32MB' AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom.clock();
    too_late bigint := mailroom.too_late(epoch, min_lifetime);
    capacity integer := cardinality(wanted) * batch_limit;
    -- What is sent to the client needs no conversion then, and by its name an encoding is looked up
    -- for every text.
    is_utf8 boolean := getdatabaseencoding() = 'UTF8' AND pg_client_encoding() = 'UTF8';
    picked record;
    result record;
    eligible mailroom.judgement[];
    others mailroom.judgement[];
    taken integer := 0;
    -- What may not be sent.
    put_off bigint[];
    void bigint[];
    void_reasons text[];
    too_old bigint[];
    unwanted bigint[];
    unwanted_reasons text[];
BEGIN
    looked := 0;
    waiting := 0;
    expired := 0;
    cancelled := 0;
    deferred := 0;
    unsignable := 0;
    suppressed := 0;
    dead_in_doubt := 0;

    IF rate_per_day IS NOT NULL THEN
        SELECT spent.wait, spent.other_rate INTO wait, other_rate
            FROM mailroom.reserve(rate_per_day, capacity, 0) AS spent;
    END IF;

    IF wait IS NULL THEN
        -- A statement of its own: the snapshots of those that follow have all rows that are locked
        -- by it. To assign it takes less than a query.
        picked := mailroom.pick(looks, turn, coalesce(first_since, '-infinity'),
            coalesce(second_since, '-infinity'), epoch, takes_doubtful);
        looked := cardinality(picked.places);
        first_through := picked.first_through;
        second_through := picked.second_through;
    END IF;

    IF looked > 0 THEN
        result := mailroom.judge_all(picked.places, too_late, signable, binds);
        eligible := result.judged;
        taken := result.eligible;

        IF taken < looked THEN
            others := ARRAY(SELECT judged FROM pg_catalog.unnest(eligible) AS judged
                WHERE judged.verdict <> 'eligible');
            eligible := ARRAY(SELECT judged FROM pg_catalog.unnest(eligible) AS judged
                WHERE judged.verdict = 'eligible');
        END IF;

        taken := least(capacity, CASE WHEN partial THEN taken ELSE taken - taken % batch_limit END);
    END IF;

    IF taken > 0 AND rate_per_day IS NOT NULL THEN
        SELECT reserved.granted, reserved.wait INTO taken, wait
            FROM mailroom.reserve(rate_per_day, capacity, taken) AS reserved;
    END IF;

    IF taken > 0 THEN
        RETURN QUERY
        WITH
        batches AS MATERIALIZED (
            SELECT
                (nth - 1) / batch_limit + 1 AS ordinal,
                min(due_at) AS due_at,
                array_agg(place) AS places,
                array_agg(token) AS tokens,
                array_agg(attempt) AS attempts,
                array_agg(failures) AS failures,
                array_agg(priority) AS priorities,
                array_agg(secret) AS secrets,
                array_agg(code) AS codes,
                array_agg(waits_since) AS waits_since,
                array_agg(action) AS actions,
                array_agg(CASE WHEN is_utf8 THEN textsend(email) ELSE mailroom.to_utf8(email) END)
                    AS emails,
                array_agg(CASE WHEN is_utf8 THEN textsend(name) ELSE mailroom.to_utf8(name) END)
                    AS names,
                array_agg(CASE WHEN is_utf8 THEN textsend(code) ELSE mailroom.to_utf8(code) END)
                    AS utf8_codes,
                array_agg(expires_at) AS expirations,
                array_agg(language) AS languages,
                array_agg(mailroom.to_utf8(payload)) AS payloads,
                count(payload) > 0 AS has_payloads,
                array_agg(binding) AS bindings,
                CASE WHEN max(doubts) > 0 THEN array_agg(doubts) END AS doubts
            FROM pg_catalog.unnest(eligible) WITH ORDINALITY AS judged (
                place, token, due_at, attempt, failures, priority, secret, code, action, email,
                    name, language, expires_at, binding,
                payload, verdict, fault, waits_since, doubts, nth
            )
            WHERE nth <= taken
            GROUP BY 1
        ),
        removed AS (
            DELETE FROM mailroom.queue WHERE ctid = ANY (ARRAY(SELECT pg_catalog.unnest(places)
                FROM batches))
        ),
        leased AS (
            INSERT INTO mailroom.leases (
                batch, holder, claimed_at, renewed_at, ends_at, due_at, tokens, attempts, failures,
                    priorities, secrets, codes, has_payloads,
                waits_since, doubts
            )
            SELECT
                wanted[ordinal], collector, epoch, epoch,
                    epoch + interval '1 millisecond' * lease::double precision, due_at,
                tokens, attempts, failures, priorities, secrets, codes, has_payloads, waits_since,
                    doubts
            FROM batches
        )
        SELECT
            wanted[ordinal], tokens, attempts, actions, emails, names, secrets, utf8_codes,
                expirations, languages, payloads, bindings, doubts,
            NULL::integer, NULL::integer, NULL::integer, NULL::integer, NULL::integer,
                NULL::integer, NULL::integer, NULL::integer, NULL::text,
            NULL::timestamptz, NULL::timestamptz, NULL::bigint, NULL::bigint, NULL::text
        -- In the order of their ordinals, by which the aggregation sorts
        -- where enable_hashagg is off.
        FROM batches;
    END IF;

    IF taken < looked THEN
        SELECT
            count(*) FILTER (WHERE verdict = 'eligible'), count(*)
                FILTER (WHERE verdict = 'expired' AND doubts = 0),
            count(*) FILTER (WHERE verdict = 'cancelled'), count(*)
                FILTER (WHERE verdict = 'ineligible'),
            count(*) FILTER (WHERE verdict = 'unsignable'), count(*)
                FILTER (WHERE verdict = 'suppressed'),
            count(*) FILTER (WHERE verdict = 'expired' AND doubts > 0),
            min(fault) FILTER (WHERE verdict = 'ineligible'),
            -- The next claim begins at what is left, or after what was looked at.
            coalesce(min(due_at) FILTER (WHERE verdict = 'eligible'
                AND priority = 0), first_through),
            coalesce(min(due_at) FILTER (WHERE verdict = 'eligible'
                AND priority <> 0), second_through),
            array_agg(token) FILTER (WHERE verdict IN ('ineligible', 'unsignable')),
            array_agg(token) FILTER (WHERE verdict = 'cancelled'), array_agg(fault)
                FILTER (WHERE verdict = 'cancelled'),
            array_agg(token) FILTER (WHERE verdict = 'expired'),
            array_agg(token) FILTER (WHERE verdict = 'suppressed'), array_agg(fault)
                FILTER (WHERE verdict = 'suppressed')
        INTO
            waiting, expired, cancelled, deferred, unsignable, suppressed, dead_in_doubt, reason,
                first_through, second_through,
            put_off, void, void_reasons, too_old, unwanted, unwanted_reasons
        FROM pg_catalog.unnest(eligible[taken + 1:] || others);

        IF coalesce(put_off, void, too_old, unwanted) IS NOT NULL THEN
            PERFORM mailroom.pass_over(collector, epoch, too_late, put_off, void, void_reasons,
                too_old, unwanted, unwanted_reasons);
            passed_over := (
                SELECT jsonb_agg(jsonb_build_object('verdict', verdict, 'reason', fault, 'count',
                    count, 'ids', ids))::text
                FROM (
                    SELECT verdict, fault, count(*) AS count, (array_agg(token))[1:10] AS ids
                    FROM pg_catalog.unnest(others)
                    GROUP BY verdict, fault
                    ORDER BY count(*) DESC
                    LIMIT 20
                ) AS alike
            );
        END IF;
    END IF;

    -- The last row has no batch, and says what was found.
    first_through := coalesce(first_through, first_since);
    second_through := coalesce(second_through, second_since);
    RETURN NEXT;
END;
$$;

COMMENT ON FUNCTION mailroom.claim(
    bigint, uuid[], integer, boolean, integer, integer, timestamptz, timestamptz, bigint, bigint,
        smallint[], boolean, bigint, boolean
) IS
    'For collectors: claims batches of what is due, of actions that can be signed; bound links '
    'only if it can bind; and what may have been delivered already only on demand, since that is '
    'no trial of a sender. The last row has no batch, and says what was found: passed_over is '
    'JSON, of what was not claimed by verdict and reason the count and some ids. The span of the '
    'lease is milliseconds, min_lifetime seconds; the rate, if there is one, '
    'tokens a day for all collectors.';

CREATE FUNCTION mailroom.list_actions() RETURNS TABLE (
    number smallint, name text, path text, code_digits smallint, token_format text
)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT actions.number, actions.name, actions.path, actions.code_digits,
        installation.token_format
    FROM mailroom.actions CROSS JOIN mailroom.installation
    ORDER BY actions.number;
END;

COMMENT ON FUNCTION mailroom.list_actions() IS
    'For collectors: what there is to sign, and in which format unless a collector is told '
    'another one.';

DO $$
DECLARE
    signature text;
BEGIN
    FOREACH signature IN ARRAY ARRAY[
        'settle(uuid[], uuid[], bigint[], text[], bigint[], text[], integer, bigint, bigint, '
        'uuid[], bigint[], text[], text[], text[])',
        'release(bigint, uuid[])',
        'claim(bigint, uuid[], integer, boolean, integer, integer, timestamptz, timestamptz, '
        'bigint, bigint, smallint[], boolean, bigint, boolean)',
        'list_actions()'
    ] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION mailroom.%s FROM PUBLIC', signature);
    END LOOP;
END;
$$;

SELECT mailroom.revoke_default_privileges();

COMMIT;

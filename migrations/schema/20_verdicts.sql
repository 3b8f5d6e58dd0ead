-- What became of mails that a broker was given: its senders say it, and collectors bring it here.
-- It comes at least once, in any order, and perhaps before the collector has settled.

-- The time limit is below that of the search for deadlocks, which could end an application.
CREATE FUNCTION mailroom.try_suppress(address text, detail text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '20ms' AS $$
BEGIN
    PERFORM mailroom.suppress(try_suppress.address, 'bounce', 'smtp', try_suppress.detail);
    RETURN true;
EXCEPTION
    WHEN lock_not_available OR deadlock_detected THEN
        RETURN false;
END;
$$;

COMMENT ON FUNCTION mailroom.try_suppress(text, text) IS
    'Suppresses an address of which a mail server says that it does not exist, unless an open '
    'transaction does the same.';

-- Answers what was done: `applied`; `dead`, when that made a dead letter; `repeated`, when it was
-- known or a later one is; `unknown`, when there is no such token any more; or `early`, when the
-- token is in the queue or in a batch, or somebody has its row, so that the verdict has to come
-- again. `kind` is sent, dead, unknown_address (dead, and the address is suppressed if the
-- collector has the right to do so), expired (dead, if its time is not over) or in_doubt. `attempt`
-- is that of the message, which is an earlier one than the token's where the answer that it was
-- stored got lost.
--
-- Locks rows of handed_over, issued_tokens, dead_letters and payloads, and waits for none of them:
-- an application that redeems, forgets or puts back may have one, and wait for the next one that
-- this has. Where somebody has one the verdict is early.
CREATE FUNCTION mailroom.settle_verdict(
    told bigint,
    key text,
    kind text,
    attempt integer,
    doubts integer,
    reason text,
    provider text,
    message_id text,
    answer text
) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom.clock();
    known mailroom.issued_tokens;
    away mailroom.handed_over;
    is_closed boolean;
    suppresses boolean := false;
    outcome mailroom.outcome;
BEGIN
    SELECT handed_over.* INTO away FROM mailroom.handed_over
    WHERE token = told
    FOR UPDATE SKIP LOCKED;

    -- By its key too: another database's tokens have the same ids.
    SELECT tokens.* INTO known
    FROM mailroom.issued_tokens AS tokens
    WHERE id = told AND encode(consumed_id, 'hex') = settle_verdict.key;

    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;

    -- A token that was given up and put back is tried anew. What was said of it before counts no
    -- more, unless it was sent.
    IF kind <> 'sent' AND EXISTS (
        SELECT FROM mailroom.delivery_log AS log
        WHERE tokens[1] = told AND log.outcome = 'dead'
            AND log.attempt >= settle_verdict.attempt
    ) THEN
        RETURN 'repeated';
    END IF;

    IF away.token IS NULL THEN
        -- One statement, one snapshot: a token that moves between the tables is in one of them, and
        -- one whose row somebody has is still in handed_over.
        IF EXISTS (SELECT FROM mailroom.queue WHERE token = told)
            OR EXISTS (SELECT FROM mailroom.leases WHERE told = ANY (tokens))
            OR EXISTS (SELECT FROM mailroom.handed_over WHERE token = told) THEN
            RETURN 'early';
        END IF;

        -- Before the token's row is locked, for which those who redeem it wait.
        IF kind <> 'sent' OR EXISTS (
            SELECT FROM mailroom.delivery_log AS log
            WHERE tokens[1] / 256 = told / 256 AND told = ANY (tokens) AND log.outcome = 'sent'
        ) THEN
            RETURN 'repeated';
        END IF;

        -- So that two collectors do not both record that it was sent.
        PERFORM FROM mailroom.issued_tokens AS tokens
        WHERE id = told
        FOR NO KEY UPDATE SKIP LOCKED;

        IF NOT FOUND THEN
            -- It comes again also if it is just being deleted, and is unknown then.
            RETURN 'early';
        END IF;

        -- It was sent after all.
        DELETE FROM mailroom.dead_letters
        WHERE token = ANY (ARRAY(
            SELECT token FROM mailroom.dead_letters WHERE token = told FOR UPDATE SKIP LOCKED
        ));

        -- Somebody puts it back just now, or has done so.
        IF EXISTS (SELECT FROM mailroom.dead_letters WHERE token = told)
            OR EXISTS (SELECT FROM mailroom.queue WHERE token = told)
            OR EXISTS (SELECT FROM mailroom.leases WHERE told = ANY (tokens))
            OR EXISTS (SELECT FROM mailroom.handed_over WHERE token = told) THEN
            RETURN 'early';
        END IF;

        IF EXISTS (
            SELECT FROM mailroom.delivery_log AS log
            WHERE tokens[1] / 256 = told / 256 AND told = ANY (tokens) AND log.outcome = 'sent'
        ) THEN
            RETURN 'repeated';
        END IF;
    END IF;

    IF kind = 'sent' THEN
        outcome := 'sent';

        IF provider IS NOT NULL THEN
            INSERT INTO mailroom.receipts (
                token, attempt, accepted_at, action, provider, message_id, answer, address_hash
            )
            VALUES (
                told, coalesce(away.attempts, settle_verdict.attempt), epoch, known.action,
                settle_verdict.provider, left(settle_verdict.message_id, 200),
                left(coalesce(settle_verdict.answer, ''), 200),
                mailroom.address_hash(
                    known.recipient_email, (SELECT address_key FROM mailroom.installation)
                )
            );
        END IF;
    ELSIF kind = 'in_doubt' THEN
        IF settle_verdict.doubts <= away.doubts THEN
            RETURN 'repeated';
        END IF;

        UPDATE mailroom.handed_over SET doubts = least(settle_verdict.doubts, 32767)::smallint
        WHERE token = told;
        outcome := 'in_doubt';
    ELSE
        is_closed := known.consumed_at IS NOT NULL OR known.cancelled_at IS NOT NULL;

        -- Who has used the link has the mail, and nobody waits for what was cancelled.
        IF is_closed AND (kind = 'expired' OR settle_verdict.doubts > 0) THEN
            outcome := 'cancelled';
        -- A machine whose clock is ahead drops every mail that it gets. What it dropped can be put
        -- back. Clocks may differ by a minute.
        ELSIF kind = 'expired' AND away.expires_at <= extract(epoch FROM epoch) + 60 THEN
            outcome := 'expired';
        ELSE
            outcome := 'dead';
            -- The collector's own right: it calls this with the rights of the owner.
            suppresses := kind = 'unknown_address'
                AND mailroom.is_address(known.recipient_email)
                AND has_function_privilege(
                    session_user, to_regprocedure('mailroom.suppress(text, text, text, text)'),
                    'EXECUTE'
                ) IS TRUE;

            -- First, since it may have to come again.
            IF suppresses AND NOT mailroom.try_suppress(
                known.recipient_email, settle_verdict.reason
            ) THEN
                RETURN 'early';
            END IF;

            INSERT INTO mailroom.dead_letters (
                token, died_at, expires_at, attempts, failures, priority, secret, code, reason,
                doubts, is_suppressed
            )
            SELECT
                told, epoch, away.expires_at, away.attempts,
                least(away.failures::integer + 1, 32767)::smallint, away.priority,
                CASE WHEN is_usable THEN away.secret END, CASE WHEN is_usable THEN away.code END,
                coalesce(settle_verdict.reason, ''),
                least(greatest(settle_verdict.doubts, away.doubts::integer), 32767)::smallint,
                coalesce(suppresses, false)
            FROM (
                SELECT NOT is_closed AND known.expires_at > extract(epoch FROM epoch) AS is_usable
            ) AS use
            ON CONFLICT DO NOTHING;
        END IF;
    END IF;

    IF outcome <> 'in_doubt' THEN
        DELETE FROM mailroom.handed_over WHERE token = told;
    END IF;

    -- A dead letter that is put back needs its payload.
    IF outcome NOT IN ('in_doubt', 'dead') THEN
        PERFORM mailroom.delete_payloads(ARRAY[told]);
    END IF;

    INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome, reason)
    VALUES (
        ARRAY[told], epoch, coalesce(away.attempts, settle_verdict.attempt), outcome,
        CASE
            WHEN outcome IN ('dead', 'in_doubt') THEN settle_verdict.reason
            WHEN outcome = 'expired' THEN mailroom.expired_unsent()
            WHEN outcome = 'cancelled' THEN 'it was used or cancelled before'
        END
    );

    -- Not by the verdict's word: one that was used meanwhile is cancelled, and a clock that is
    -- ahead expires nothing.
    RETURN CASE outcome WHEN 'dead' THEN 'dead' ELSE 'applied' END;
END;
$$;

COMMENT ON FUNCTION mailroom.settle_verdict(bigint, text, text, integer, integer, text, text, text,
    text) IS
    'Records what became of a mail that was handed over, and answers whether that was applied, made'
    ' a dead letter, or was repeated, unknown or early.';

CREATE FUNCTION mailroom.settle_verdicts(
    verdict_tokens bigint[],
    verdict_keys text[],
    verdict_kinds text[],
    verdict_attempts integer[],
    verdict_doubts integer[],
    verdict_reasons text[],
    receipt_providers text[],
    receipt_message_ids text[],
    receipt_answers text[]
) RETURNS TABLE (place bigint, result text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
BEGIN
    -- As in settle(): also a repetition waits for what the first one waits for, such as a standby.
    PERFORM pg_logical_emit_message(true, 'mailroom', '');

    -- Of one token in the order in which they came.
    FOR place, result IN
        SELECT told.nth, mailroom.settle_verdict(told.token, told.key, told.kind, told.attempt,
            told.doubts, told.reason, told.provider, told.message_id, told.answer)
        FROM (
            SELECT verdict.*
            FROM ROWS FROM (
                pg_catalog.unnest(verdict_tokens), pg_catalog.unnest(verdict_keys),
                pg_catalog.unnest(verdict_kinds), pg_catalog.unnest(verdict_attempts),
                pg_catalog.unnest(verdict_doubts), pg_catalog.unnest(verdict_reasons),
                pg_catalog.unnest(receipt_providers), pg_catalog.unnest(receipt_message_ids),
                pg_catalog.unnest(receipt_answers)
            ) WITH ORDINALITY AS verdict (
                token, key, kind, attempt, doubts, reason, provider, message_id, answer, nth
            )
            ORDER BY verdict.token, verdict.nth
            OFFSET 0
        ) AS told
    LOOP
        RETURN NEXT;
    END LOOP;
END;
$$;

COMMENT ON FUNCTION mailroom.settle_verdicts(bigint[], text[], text[], integer[], integer[],
    text[], text[], text[], text[]) IS
    'For collectors: records what became of mails that were handed over to a broker; answers of '
    'each, by its place in the arrays, whether that was applied, dead (it is a dead letter now), '
    'repeated (known before), unknown (no such token) or early (it has to come again).';

-- What the broker knows of these is asked for again: a verdict that was done with there can be
-- missing here, where a standby took over that had not received it.
--
-- Locks nothing.
CREATE FUNCTION mailroom.list_handed_over(after_token bigint, most integer)
RETURNS TABLE (token bigint, key text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT away.token, encode(tokens.consumed_id, 'hex')
    FROM (
        SELECT token FROM mailroom.handed_over
        WHERE token > after_token AND handed_over_at < mailroom.clock() - interval '1 minute'
        ORDER BY token
        LIMIT most
    ) AS away
    JOIN mailroom.issued_tokens AS tokens ON tokens.id = away.token
    ORDER BY 1;
END;
$$;

COMMENT ON FUNCTION mailroom.list_handed_over(bigint, integer) IS
    'For collectors: the next tokens after one that were handed over a minute ago and have no '
    'verdict, with the keys by which a broker knows them.';

-- Neither the name alone, which need not be given, nor the key, which a copy has too.
CREATE FUNCTION mailroom.name_reader(installation text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off
BEGIN ATOMIC
    SELECT encode(substr(sha256(
        own.address_key || mailroom.to_utf8(concat_ws(
            '/', mailroom.cluster_identifier(), current_database(), name_reader.installation
        ))
    ), 1, 8), 'hex')
    FROM mailroom.installation AS own;
END;

COMMENT ON FUNCTION mailroom.name_reader(text) IS
    'For collectors: 16 digits by which a broker tells the readers of this database from those of '
    'others, and of its copies, whose collectors name another installation.';

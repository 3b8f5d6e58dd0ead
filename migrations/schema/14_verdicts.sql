-- What became of mails that a broker was given: its senders say it, and collectors bring it here.
-- It comes at least once, in any order, and perhaps before the collector has settled.

-- Answers what was done: `applied`; `repeated`, when it was known or a later one is; `unknown`,
-- when there is no such token any more; or `early`, when the token is in the queue or in a batch,
-- so that the verdict has to come again. `kind` is sent, dead, unknown_address (dead, and the
-- address is suppressed if the collector has the right to do so), expired or in_doubt. `attempt` is
-- that of the message, which is an earlier one than the token's where the answer that it was stored
-- got lost.
--
-- Locks, in this order: the token's row of handed_over, its dead letter, its row of issued_tokens.
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
    -- By its key too: another database's tokens have the same ids.
    SELECT tokens.* INTO known
    FROM mailroom.issued_tokens AS tokens
    WHERE id = told AND encode(consumed_id, 'hex') = settle_verdict.key;

    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;

    SELECT handed_over.* INTO away FROM mailroom.handed_over WHERE token = told FOR UPDATE;

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
        -- It was sent after all. Whoever puts it back just now is waited for.
        IF kind = 'sent' THEN
            DELETE FROM mailroom.dead_letters WHERE token = told;
        END IF;

        -- One statement, one snapshot: a token that moves between the tables is in one of them.
        IF EXISTS (SELECT FROM mailroom.queue WHERE token = told)
            OR EXISTS (SELECT FROM mailroom.leases WHERE told = ANY (tokens))
            OR EXISTS (SELECT FROM mailroom.handed_over WHERE token = told) THEN
            RETURN 'early';
        END IF;

        IF kind <> 'sent' THEN
            RETURN 'repeated';
        END IF;

        PERFORM FROM mailroom.issued_tokens AS tokens WHERE id = told FOR NO KEY UPDATE;

        IF NOT FOUND THEN
            RETURN 'unknown';
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
        ELSIF kind = 'expired' THEN
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

            IF suppresses THEN
                PERFORM mailroom.suppress(
                    known.recipient_email, 'bounce', 'smtp', settle_verdict.reason
                );
            END IF;
        END IF;
    END IF;

    IF outcome <> 'in_doubt' THEN
        DELETE FROM mailroom.handed_over WHERE token = told;
    END IF;

    -- A dead letter that is put back needs its payload.
    IF outcome NOT IN ('in_doubt', 'dead') THEN
        DELETE FROM mailroom.payloads WHERE token = told;
    END IF;

    INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome, reason)
    VALUES (
        ARRAY[told], epoch, coalesce(away.attempts, settle_verdict.attempt), outcome,
        CASE
            WHEN outcome IN ('dead', 'in_doubt') THEN settle_verdict.reason
            WHEN outcome = 'expired' THEN 'it expired before it could be sent'
            WHEN outcome = 'cancelled' THEN 'it was used or cancelled before'
        END
    );

    RETURN 'applied';
END;
$$;

COMMENT ON FUNCTION mailroom.settle_verdict(bigint, text, text, integer, integer, text, text, text,
    text) IS
    'Records what became of a mail that was handed over, and answers whether that was applied, '
    'repeated, unknown or early.';

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
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    -- As in settle(): also a repetition waits for what the first one waits for, such as a standby.
    PERFORM pg_logical_emit_message(true, 'mailroom', '');

    -- In the order of tokens, so that two collectors do not wait for each other, and of one token
    -- in the order in which they came.
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
    'each, by its place in the arrays, whether that was applied, repeated (known before), unknown '
    '(no such token) or early (it has to come again).';

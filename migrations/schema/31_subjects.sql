-- All that is kept of a subject: exported or forgotten.

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

COMMENT ON FUNCTION mailroom.receipts_of(bigint[], text) IS
    'Ids of the receipts of tokens and, of tokens that were pruned, of the same addresses or of '
    'another one.';

-- A claim that has a token already hands it over; nothing that comes back of it is kept or sent
-- again, because its row is gone.
--
-- Locks, after the subject's row, of which it locks an account's by itself: its dead letters, its
-- tokens, then what hangs on them. No batch: a collector would wait for the application, and its
-- lease would end.
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

    -- In the others an old snapshot can lack what is to be erased.
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'mailroom.forget() does not work in % transactions',
            current_setting('transaction_isolation')
            USING ERRCODE = 'invalid_transaction_state',
                HINT = 'Call it in a transaction with the isolation level READ COMMITTED.';
    END IF;

    -- Whoever deletes an account locks it before its tokens.
    IF to_regclass('mailroom.adopted_accounts') IS NOT NULL THEN
        PERFORM FROM mailroom.adopted_accounts AS accounts
        WHERE id = CASE WHEN forget.subject_id ~ '^(0|[1-9][0-9]{0,17})$'
            THEN forget.subject_id::bigint END
        FOR KEY SHARE;
    END IF;

    -- What somebody is just putting back, using or renewing is waited for, too. What that has made,
    -- a new token or a notice, is seen by a statement that begins later: it can come before those
    -- that are locked, so that all are let go and locked anew.
    LOOP
        BEGIN
            DELETE FROM mailroom.dead_letters
            WHERE token = ANY (mailroom.tokens_of(forget.subject_id, forget.address));

            erased := ARRAY(
                SELECT id FROM mailroom.issued_tokens AS tokens
                WHERE id = ANY (mailroom.tokens_of(forget.subject_id, forget.address))
                ORDER BY id
                FOR UPDATE
            );
            EXIT WHEN mailroom.tokens_of(forget.subject_id, forget.address) <@ erased
                AND NOT EXISTS (SELECT FROM mailroom.dead_letters WHERE token = ANY (erased));
            RAISE SQLSTATE 'MLNEW';
        EXCEPTION WHEN SQLSTATE 'MLNEW' THEN
            NULL;
        END;
    END LOOP;

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
    DELETE FROM mailroom.handed_over WHERE token = ANY (erased);

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
                    'notice_recipient', notice_recipient,
                    'language', language,
                    'traceparent', traceparent,
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

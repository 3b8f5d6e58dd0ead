-- An application makes a token and queues its mail, in its own transaction.

CREATE FUNCTION mailroom.next_token_id() RETURNS bigint
LANGUAGE sql VOLATILE
RETURN nextval('mailroom.issued_tokens_id_seq'::regclass);

COMMENT ON FUNCTION mailroom.next_token_id() IS 'The next token''s id.';

-- The collector's payload.rs has the same limits. A payload of 200 bytes has neither a hundred
-- levels nor a number of 309 digits, and exact looks follow where the text alone could have them.
CREATE FUNCTION mailroom.payload_fault(payload jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    written text := payload::text;
BEGIN
    RETURN CASE
        WHEN octet_length(written) <= 200 THEN NULL
        WHEN octet_length(written) > 8192 THEN 'payload has more than 8192 bytes'
        WHEN octet_length(written) - octet_length(translate(written, '[{', '')) > 100
            AND jsonb_path_exists(payload,
                'strict $.**{100} ? (@.type() == "array" || @.type() == "object")')
        THEN 'payload is nested more than 100 levels deep, which no sender reads'
        WHEN written ~ '[0-9]{155}[0-9]{154}'
            AND jsonb_path_exists(payload,
                'strict $.** ? (@.type() == "number" && (@ >= 1e308 || @ <= -1e308))')
        THEN 'payload has a number of 1e308 or more, which no sender reads'
    END;
END;
$$;

COMMENT ON FUNCTION mailroom.payload_fault(jsonb) IS
    'Why no sender can read a payload; null if each can.';

-- A caller whose tracing is broken still gets its mail: what is invalid counts as nothing. The
-- length goes first, so that no pattern is looked for in a text of megabytes.
CREATE FUNCTION mailroom.valid_traceparent(given text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN octet_length(given) = 55 THEN CASE
        -- By the length and the places of the hyphens: a pattern that counts takes four times as
        -- long.
        WHEN given ~ '^00-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+$'
            AND substr(given, 36, 1) = '-' AND substr(given, 53, 1) = '-'
            AND substr(given, 4, 32) <> repeat('0', 32) AND substr(given, 37, 16) <> repeat('0', 16)
        THEN given
    END
END;

COMMENT ON FUNCTION mailroom.valid_traceparent(text) IS
    'A traceparent of W3C Trace Context, version 00; null for what is none.';

CREATE FUNCTION mailroom.traceparent(given text) RETURNS text
LANGUAGE sql STABLE
RETURN coalesce(
    mailroom.valid_traceparent(given),
    mailroom.valid_traceparent(current_setting('mailroom.traceparent', true))
);

COMMENT ON FUNCTION mailroom.traceparent(text) IS
    'The trace that a token belongs to: the given one or else that of the setting '
    'mailroom.traceparent; null if neither is valid.';

-- Apart, with a setting that each call of enqueue() would pay for, and that few need: without it a
-- plan for an empty table reads all keys later. Volatile, to see what was committed while the key
-- was waited for.
CREATE FUNCTION mailroom.find_key(action smallint, key text, OUT token bigint, OUT digest bytea)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
BEGIN
    SELECT known.token, known.digest INTO find_key.token, find_key.digest
    FROM mailroom.idempotency_keys AS known
    WHERE known.action = find_key.action AND known.key = find_key.key;
END;
$$;

COMMENT ON FUNCTION mailroom.find_key(smallint, text) IS
    'The token of an idempotency key, and the digest of its mail; nulls if the key is not known.';

CREATE FUNCTION mailroom.enqueue(
    action text,
    recipient_email text,
    recipient_name text DEFAULT NULL,
    subject_id text DEFAULT NULL,
    payload jsonb DEFAULT NULL,
    language text DEFAULT NULL,
    deliver_at timestamptz DEFAULT NULL,
    idempotency_key text DEFAULT NULL,
    binding bytea DEFAULT NULL,
    notice_recipient text DEFAULT NULL,
    traceparent text DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    wanted mailroom.actions%ROWTYPE;
    fault text;
    epoch timestamptz := mailroom.clock();
    due_at timestamptz := greatest(enqueue.deliver_at, epoch);
    ends_at bigint;
    secret bytea := mailroom.generate_secret();
    code text;
    made bigint;
    earlier record;
    digest bytea;
BEGIN
    -- Reading the table locks it until the transaction ends, so that what tokens carry of the
    -- action does not change before they are committed. A lock of the row would do that as well,
    -- but concurrent transactions would then make a MultiXact of all lockers for each token.
    SELECT * INTO wanted FROM mailroom.actions WHERE name = enqueue.action;

    -- In a stricter isolation level an old snapshot can show a row that has been changed since. If
    -- there is any sign of that, locking the row finds out, and fails as a serialization error.
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        PERFORM FROM mailroom.actions
        WHERE number = wanted.number AND xmax::text <> '0'
        FOR KEY SHARE;
    END IF;

    -- What was given is not repeated: an address does not belong into a log.
    fault := CASE
        WHEN wanted.number IS NULL THEN
            'there is no such action; mailroom.actions has those that there are'
        -- A call that is repeated is answered as before.
        WHEN wanted.is_retired
            AND (mailroom.find_key(wanted.number, enqueue.idempotency_key)).token IS NULL
        THEN 'the action is retired'
        WHEN mailroom.is_address(enqueue.recipient_email) IS NOT TRUE THEN
            'recipient_email is not an address that mail can be sent to: NAME@DOMAIN without '
            'spaces, quotes,'
            ' brackets and invisible characters, of at most 254 bytes'
        WHEN enqueue.notice_recipient IS NOT NULL
            AND mailroom.is_address(enqueue.notice_recipient) IS NOT TRUE THEN
            'notice_recipient is not an address that mail can be sent to'
        WHEN octet_length(enqueue.recipient_name) > 254
            OR enqueue.recipient_name ~ '[[:cntrl:]]' THEN
            'recipient_name has more than 254 bytes or a control character'
        WHEN octet_length(enqueue.subject_id) NOT BETWEEN 1 AND 255
            THEN 'subject_id is empty or has more than 255 bytes'
        WHEN enqueue.subject_id IS NULL AND wanted.eligibility IS NOT NULL THEN
            'this action needs a subject_id, of which its eligibility is asked'
        WHEN enqueue.deliver_at > epoch + interval '1 year'
            THEN 'deliver_at is more than a year away'
        WHEN octet_length(enqueue.idempotency_key) NOT BETWEEN 1 AND 255
            THEN 'idempotency_key is empty or has more than 255 bytes'
        WHEN octet_length(enqueue.binding) <> 16 THEN 'binding is not of 16 bytes'
        ELSE mailroom.payload_fault(enqueue.payload)
    END;

    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'mailroom.enqueue(): %', fault USING ERRCODE = 'invalid_parameter_value';
    END IF;

    ends_at := ceil(extract(epoch FROM due_at + wanted.lifetime))::bigint;

    IF wanted.code_digits > 0 THEN
        code := mailroom.generate_code(wanted.code_digits::integer);
    END IF;

    made := mailroom.next_token_id();

    IF enqueue.idempotency_key IS NOT NULL THEN
        -- In the database's own encoding: some of its texts may have no form in UTF-8.
        digest := sha256(convert_to(jsonb_build_array(
            enqueue.recipient_email, enqueue.recipient_name, enqueue.subject_id, enqueue.payload,
                enqueue.language,
            -- A time as text depends on the session's time zone.
            extract(epoch FROM enqueue.deliver_at),
            encode(enqueue.binding, 'hex'), enqueue.notice_recipient
        )::text, getdatabaseencoding()));

        INSERT INTO mailroom.idempotency_keys (action, key, token, digest, expires_at, subject_id)
        VALUES (
            wanted.number, enqueue.idempotency_key, made, digest, ends_at + 30 * 86400,
            enqueue.subject_id
        )
        ON CONFLICT ON CONSTRAINT idempotency_keys_pkey DO NOTHING;

        IF NOT FOUND THEN
            SELECT * INTO earlier
            FROM mailroom.find_key(wanted.number, enqueue.idempotency_key);

            IF earlier.token IS NULL THEN
                RAISE EXCEPTION
                    'mailroom.enqueue(): another transaction has just used this idempotency_key'
                    USING ERRCODE = 'serialization_failure', HINT = 'Repeat the transaction.';
            ELSIF earlier.digest <> digest THEN
                RAISE EXCEPTION
                    'mailroom.enqueue(): this idempotency_key was used with other arguments, for '
                    'token %', earlier.token
                    USING ERRCODE = 'unique_violation', HINT =
                        'One key stands for one mail: take a key of its own for another.';
            END IF;

            RETURN earlier.token;
        END IF;
    END IF;

    INSERT INTO mailroom.issued_tokens (
        id, action, subject_id, recipient_email, recipient_name, language, consumed_id, code_hash,
            created_at, expires_at,
        binding, has_payload, notice_recipient, traceparent
    )
    VALUES (
        made, wanted.number, enqueue.subject_id, enqueue.recipient_email, enqueue.recipient_name,
        mailroom.language_tag(enqueue.language), mailroom.consumed_id(secret),
            mailroom.code_hash(secret, code),
        floor(extract(epoch FROM epoch))::bigint, ends_at,
        enqueue.binding, enqueue.payload IS NOT NULL, enqueue.notice_recipient,
        mailroom.traceparent(enqueue.traceparent)
    );

    IF enqueue.payload IS NOT NULL THEN
        INSERT INTO mailroom.payloads (token, payload) VALUES (made, enqueue.payload);
    END IF;

    -- By a clock that is read when the transaction has its number, as peek() needs it.
    epoch := mailroom.clock();
    due_at := greatest(due_at, epoch);

    -- Mails for one time, such as nine o'clock, are spread over a second: what looks at rows of the
    -- queue part by part must not find millions at one place.
    INSERT INTO mailroom.queue (token, due_at, put_off_at, priority, secret, code)
    VALUES (
        made,
        CASE WHEN due_at > epoch THEN due_at + interval '1 microsecond' * (made % 1000000)
            ELSE due_at END,
        CASE WHEN due_at > epoch THEN epoch END,
        wanted.priority, secret, code
    );

    RETURN made;
END;
$$;

COMMENT ON FUNCTION mailroom.enqueue(text, text, text, text, jsonb, text, timestamptz, text,
    bytea, text, text) IS
    'Makes a token and queues its mail in the caller''s transaction; answers the token''s id. The '
    'same idempotency_key with the same arguments answers the id of the first call and sends '
    'nothing again, until 30 days after that token''s expiry. deliver_at is at most a year away, '
    'and the lifetime begins there; the mail is due within a second from then on. '
    'binding names the browser that the link is for, and notice_recipient who gets notices, as in '
    'issued_tokens. traceparent names the trace that the mail belongs to, or else the setting '
    'mailroom.traceparent of the transaction does; what is invalid is ignored.';

-- Alike for every browser, whether it has a token or not, so that nobody learns by it who exists.
CREATE FUNCTION mailroom.browser_code(binding bytea) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    epoch bigint := floor(extract(epoch FROM mailroom.clock()));
    shown text;
BEGIN
    IF octet_length(browser_code.binding) IS DISTINCT FROM 16 THEN
        RAISE EXCEPTION 'mailroom.browser_code(): binding is not of 16 bytes'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    INSERT INTO mailroom.browser_codes AS known (binding, code, expires_at)
    VALUES (browser_code.binding, mailroom.generate_code(5), epoch + 86400)
    ON CONFLICT ON CONSTRAINT browser_codes_pkey DO UPDATE
    SET code = CASE WHEN known.tries < 5 AND known.expires_at > epoch THEN known.code
        ELSE excluded.code END,
        tries = CASE WHEN known.tries < 5 AND known.expires_at > epoch THEN known.tries
            ELSE 0::smallint END,
        expires_at = excluded.expires_at
    RETURNING code INTO shown;

    -- A visitor without cookies leaves a row at each call. Two go for one that comes, so that there
    -- are no more than a day has, also where nobody prunes. Afterwards, so that no two calls wait
    -- for each other's rows; in order, so that the index leads to them.
    DELETE FROM mailroom.browser_codes AS known
    WHERE known.binding = ANY (ARRAY(
        SELECT past.binding FROM mailroom.browser_codes AS past
        WHERE past.expires_at < epoch
        ORDER BY past.expires_at
        LIMIT 2
        FOR UPDATE SKIP LOCKED
    ));

    RETURN shown;
END;
$$;

COMMENT ON FUNCTION mailroom.browser_code(bytea) IS
    'Digits for that browser to show, and for no mail: whoever enters them may use the links that '
    'are bound to it in another browser, for actions without a code. The same for a day from the '
    'last call, or until five codes were entered: then others.';

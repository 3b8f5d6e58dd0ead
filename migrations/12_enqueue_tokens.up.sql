-- Feature: an application enqueues a mail in its own transaction, for anybody,
-- from any table with any key.
--
-- Functions that others may call run with the rights of their owner, so that nobody needs rights on
-- the tables. Nothing on a caller's search path can step in for a name in them: it is set to
-- pg_catalog, and Mailroom's own names have their schema.
--
-- Locks: no table; some milliseconds.

BEGIN;

-- Bodies of standard SQL are bound when they are created and need no search path, which would keep
-- them from being inlined.
CREATE FUNCTION mailroom.consumed_id(secret bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN substring(sha256('mailroom/consumed\000'::bytea || secret) FROM 1 FOR 16);

COMMENT ON FUNCTION mailroom.consumed_id(bytea) IS
    'Consumed id of a token: the first 16 bytes of SHA-256("mailroom/consumed", a zero byte, '
    'secret). Tells nothing about the secret.';

-- In a database with another encoding than UTF-8 the digits have the same bytes.
CREATE FUNCTION mailroom.code_hash(secret bytea, code text) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN sha256('mailroom/code\000'::bytea || secret || decode(replace(code, '\', '\\'), 'escape'));

COMMENT ON FUNCTION mailroom.code_hash(bytea, text) IS
    'SHA-256("mailroom/code", a zero byte, secret, code). Five digits are found by trying, but not '
    'without the 32 bytes of the secret.';

-- A random UUID has 122 bits of the server's cryptographic generator; two have 244, more than
-- anybody can try. The hash spreads them over all bytes. A third UUID would cost a registration as
-- much as another index.
CREATE FUNCTION mailroom.generate_secret() RETURNS bytea
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

COMMENT ON FUNCTION mailroom.generate_secret() IS '32 unguessable bytes.';

CREATE FUNCTION mailroom.generate_code(digits integer) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    count bigint := 10::bigint ^ digits;
    number bigint;
BEGIN
    LOOP
        -- The first 32 bits of a random UUID are all random.
        number := ('x' || left(gen_random_uuid()::text, 8))::bit(32)::bigint;
        -- What lies above the largest multiple would favour the lower codes.
        EXIT WHEN number < (1::bigint << 32) / count * count;
    END LOOP;

    RETURN lpad((number % count)::text, digits, '0');
END;
$$;

COMMENT ON FUNCTION mailroom.generate_code(integer) IS
    'Decimal digits from a cryptographic generator, uniformly distributed; 5 to 8.';

-- Without a search path of its own, which would take as long as all the rest:
-- every name has its schema.
CREATE FUNCTION mailroom.trg_after_queue_insert() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    -- An idle collector holds this advisory lock exclusively, so the shared lock fails while a
    -- collector is idle or waits to be. A transaction that gets the shared lock keeps it until it
    -- ends, so a collector that becomes idle afterwards sees its row. While no collector is idle,
    -- no transaction notifies: notifications serialise commits in the whole server. The oid keeps
    -- apart the queues of databases.
    IF NOT pg_catalog.pg_try_advisory_xact_lock_shared(1835100524, TG_RELID::integer) THEN
        PERFORM pg_catalog.pg_notify('token_insert', '');
    END IF;

    RETURN NULL;
END;
$$;

REVOKE ALL ON FUNCTION mailroom.trg_after_queue_insert() FROM PUBLIC;

COMMENT ON FUNCTION mailroom.trg_after_queue_insert() IS
    'Notifies token_insert if a collector is idle.';

CREATE TRIGGER after_queue_insert
    AFTER INSERT ON mailroom.queue
    FOR EACH STATEMENT
    EXECUTE FUNCTION mailroom.trg_after_queue_insert();

-- Types too: a value of another one would be cast to text, by a cast that the function's owner may
-- have made, which would run with the rights of Mailroom's owner.
CREATE FUNCTION mailroom.is_predicate(candidate oid) RETURNS boolean
LANGUAGE sql STABLE
RETURN EXISTS (
    SELECT FROM pg_proc
    WHERE oid = candidate
        AND prokind = 'f'
        AND prosecdef
        AND proretset
        AND proallargtypes = ARRAY[
            'text[]'::regtype, 'boolean'::regtype, 'text'::regtype, 'text'::regtype, 'text'::regtype
        ]::oid[]
        AND proargmodes IN ('{i,i,t,t,t}', '{i,i,o,o,o}')
        AND proargnames[3:] = '{subject_id,email,name}'
);

REVOKE ALL ON FUNCTION mailroom.is_predicate(oid) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.is_predicate(oid) IS
    'Whether a function can be asked who is eligible: SECURITY DEFINER, of (text[], boolean), with '
    'rows of three texts.';

-- Whoever waits behind its lock waits no longer than a second.
CREATE FUNCTION mailroom.trg_before_action_change() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '1s' AS $$
DECLARE
    fault text;
    predicate regprocedure;
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        RAISE EXCEPTION 'actions cannot be truncated'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;

    IF TG_OP <> 'INSERT'
        AND (OLD.number, OLD.name, OLD.path, OLD.code_digits) IS DISTINCT
            FROM (NEW.number, NEW.name, NEW.path, NEW.code_digits)
    THEN
        -- Waits for every transaction that has read the table for a token, and lets no other read
        -- it: afterwards all tokens that were made of the action are committed and can be seen. The
        -- triggers that make tokens of accounts need not wait: their actions cannot be changed.
        BEGIN
            LOCK TABLE mailroom.actions IN ACCESS EXCLUSIVE MODE;
        EXCEPTION WHEN lock_not_available THEN
            RAISE EXCEPTION
                'the action % cannot be changed: another transaction has read mailroom.actions '
                'for longer than a second', OLD.name
                USING ERRCODE = 'lock_not_available',
                    HINT = 'Repeat it when that transaction, such as pg_dump or a prepared one, '
                        'has ended; pg_locks shows it.';
        END;

        fault := CASE
            WHEN OLD.number IN (1, 2) THEN 'it is one of Mailroom''s own'
            WHEN current_setting('transaction_isolation') NOT IN ('read committed',
                'read uncommitted') THEN
                'in a transaction of this isolation level it may have tokens that are not seen'
            WHEN EXISTS (SELECT FROM mailroom.issued_tokens AS tokens WHERE action = OLD.number)
                THEN 'it has tokens'
            -- Otherwise enqueue() would answer its old tokens for the keys of its successor.
            WHEN EXISTS (SELECT FROM mailroom.idempotency_keys WHERE action = OLD.number)
                THEN 'its idempotency keys are not forgotten yet'
        END;
    END IF;

    IF fault IS NOT NULL AND TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'the action % cannot be deleted: %', OLD.name, fault
            USING ERRCODE = 'integrity_constraint_violation', HINT = 'Retire it by is_retired.';
    ELSIF fault IS NOT NULL THEN
        RAISE EXCEPTION 'number, name, path and code_digits of the action % cannot be changed: %',
            OLD.name, fault
            USING ERRCODE = 'integrity_constraint_violation',
                HINT = 'Retire it by is_retired, and add an action with another number, name and '
                    'path.';
    END IF;

    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;

    BEGIN
        predicate := to_regprocedure(NEW.eligibility);
    EXCEPTION WHEN invalid_text_representation THEN
        -- Without the types of its arguments, of which the hint below tells.
        predicate := NULL;
    END;

    -- Anything else would run with the rights of Mailroom's owner.
    IF NEW.eligibility IS NOT NULL AND mailroom.is_predicate(predicate) IS NOT TRUE THEN
        RAISE EXCEPTION
            'the eligibility of the action % is not a SECURITY DEFINER function of (text[], '
            'boolean) that returns rows'
            ' (subject_id text, email text, name text)', NEW.name
            USING ERRCODE = 'invalid_parameter_value',
                HINT = 'CREATE FUNCTION ...(subject_ids text[], is_redemption boolean) RETURNS '
                    'TABLE (subject_id text, email text, name text) ... SECURITY DEFINER. It then '
                    'runs with the rights of its own owner. Name it with its schema and the types '
                    'of its arguments.';
    END IF;

    -- With its schema, wherever that is found.
    NEW.eligibility := predicate::text;
    RETURN NEW;
END;
$$;

REVOKE ALL ON FUNCTION mailroom.trg_before_action_change() FROM PUBLIC;

COMMENT ON FUNCTION mailroom.trg_before_action_change() IS
    'Keeps what links and verifiers know of an action, actions that have tokens, and functions of '
    'eligibility from running with the rights of Mailroom''s owner.';

CREATE TRIGGER before_action_change
    BEFORE INSERT OR UPDATE OR DELETE ON mailroom.actions
    FOR EACH ROW
    EXECUTE FUNCTION mailroom.trg_before_action_change();

CREATE TRIGGER before_actions_truncate
    BEFORE TRUNCATE ON mailroom.actions
    FOR EACH STATEMENT
    EXECUTE FUNCTION mailroom.trg_before_action_change();

CREATE FUNCTION mailroom.trg_before_token_change() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'action, secret, code and binding of token % cannot be changed', OLD.id
        USING ERRCODE = 'integrity_constraint_violation',
            HINT = 'Its mail may be signed already. Enqueue another one instead.';
END;
$$;

REVOKE ALL ON FUNCTION mailroom.trg_before_token_change() FROM PUBLIC;

COMMENT ON FUNCTION mailroom.trg_before_token_change() IS
    'Keeps what a token''s link says of it: a link is never signed for another browser than '
    'before, nor for any.';

CREATE TRIGGER before_token_change
    BEFORE UPDATE OF action, consumed_id, code_hash, binding ON mailroom.issued_tokens
    FOR EACH ROW
    WHEN ((NEW.action, NEW.consumed_id, NEW.code_hash, NEW.binding) IS DISTINCT
        FROM (OLD.action, OLD.consumed_id, OLD.code_hash, OLD.binding))
    EXECUTE FUNCTION mailroom.trg_before_token_change();

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

REVOKE ALL ON FUNCTION mailroom.payload_fault(jsonb) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.payload_fault(jsonb) IS
    'Why no sender can read a payload; null if each can.';

CREATE FUNCTION mailroom.enqueue(
    action text,
    recipient_email text,
    recipient_name text DEFAULT NULL,
    subject_id text DEFAULT NULL,
    payload jsonb DEFAULT NULL,
    language text DEFAULT NULL,
    deliver_at timestamptz DEFAULT NULL,
    idempotency_key text DEFAULT NULL,
    binding bytea DEFAULT NULL
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
    earlier mailroom.idempotency_keys%ROWTYPE;
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
        WHEN wanted.is_retired THEN 'the action is retired'
        WHEN mailroom.is_address(enqueue.recipient_email) IS NOT TRUE THEN
            'recipient_email is not an address that mail can be sent to: NAME@DOMAIN without '
            'spaces, quotes,'
            ' brackets and invisible characters, of at most 254 bytes'
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
        code := mailroom.generate_code(wanted.code_digits);
    END IF;

    made := mailroom.next_token_id();

    IF enqueue.idempotency_key IS NOT NULL THEN
        digest := sha256(convert_to(jsonb_build_array(
            enqueue.recipient_email, enqueue.recipient_name, enqueue.subject_id, enqueue.payload,
                enqueue.language,
            -- A time as text depends on the session's time zone.
            extract(epoch FROM enqueue.deliver_at),
            encode(enqueue.binding, 'hex')
        )::text, 'UTF8'));

        INSERT INTO mailroom.idempotency_keys (action, key, token, digest, expires_at, subject_id)
        VALUES (
            wanted.number, enqueue.idempotency_key, made, digest, ends_at + 30 * 86400,
            enqueue.subject_id
        )
        ON CONFLICT ON CONSTRAINT idempotency_keys_pkey DO NOTHING;

        IF NOT FOUND THEN
            SELECT * INTO earlier FROM mailroom.idempotency_keys AS known
            WHERE known.action = wanted.number AND known.key = enqueue.idempotency_key;

            IF NOT FOUND THEN
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
        binding, has_payload
    )
    VALUES (
        made, wanted.number, enqueue.subject_id, enqueue.recipient_email, enqueue.recipient_name,
        mailroom.language_tag(enqueue.language), mailroom.consumed_id(secret),
            mailroom.code_hash(secret, code),
        floor(extract(epoch FROM epoch))::bigint, ends_at,
        enqueue.binding, enqueue.payload IS NOT NULL
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
    bytea) IS
    'Makes a token and queues its mail in the caller''s transaction; answers the token''s id. The '
    'same idempotency_key with the same arguments answers the id of the first call and sends '
    'nothing again, until 30 days after that token''s expiry. deliver_at is at most a year away, '
    'and the lifetime begins there; the mail is due within a second from then on. '
    'binding names the browser that the link is for, as in issued_tokens.';

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

-- In a database with another encoding than UTF-8 a text may have no UTF-8 form; the row is sent as
-- a byte that is none, which no line takes, so that the token is given up and the others of its
-- batch go out.
CREATE FUNCTION mailroom.to_utf8(value text) RETURNS bytea
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN convert_to(value, 'UTF8');
EXCEPTION WHEN untranslatable_character OR character_not_in_repertoire THEN
    -- Not as a literal, whose backslash means another byte without standard_conforming_strings.
    RETURN decode('ff', 'hex');
END;
$$;

REVOKE ALL ON FUNCTION mailroom.to_utf8(text) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.to_utf8(text) IS
    'Text in UTF-8, or one byte that is not, if it has no such form.';

-- Not stable, as the database's encoding never changes: so that a plan has its answer, and what
-- calls it becomes a part of other statements.
CREATE FUNCTION mailroom.is_utf8() RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN getdatabaseencoding() = 'UTF8';

COMMENT ON FUNCTION mailroom.is_utf8() IS 'Whether the encoding of the database is UTF-8.';

CREATE FUNCTION mailroom.code_points(utf8 bytea) RETURNS integer[]
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    byte integer;
    point integer;
    lowest integer;
    missing integer := 0;
    points integer[] := '{}';
BEGIN
    FOR place IN 0 .. octet_length(utf8) - 1 LOOP
        byte := get_byte(utf8, place);

        IF missing > 0 THEN
            point := CASE WHEN byte BETWEEN 128 AND 191 THEN point * 64 + byte - 128 END;
            missing := missing - 1;
        ELSE
            CASE
                WHEN byte < 128 THEN point := byte; lowest := 0; missing := 0;
                WHEN byte < 224 THEN point := byte - 192; lowest := 128; missing := 1;
                WHEN byte < 240 THEN point := byte - 224; lowest := 2048; missing := 2;
                ELSE point := byte - 240; lowest := 65536; missing := 3;
            END CASE;
        END IF;

        IF point IS NULL OR point < 0 OR missing = 0 AND point < lowest THEN
            RETURN NULL;
        ELSIF missing = 0 THEN
            points := points || point;
        END IF;
    END LOOP;

    RETURN CASE WHEN missing = 0 THEN points END;
END;
$$;

REVOKE ALL ON FUNCTION mailroom.code_points(bytea) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.code_points(bytea) IS
    'The characters of a text in UTF-8, by their numbers in Unicode; null if it is not UTF-8.';

-- The letters that have a capital: of ASCII, Latin, Greek, Cyrillic and Armenian. A function of a
-- locale knows more, but other ones in each database, and what is suppressed must not depend on it.
CREATE FUNCTION mailroom.fold_letter(letter integer) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN letter <@ '{[65,91),[192,215),[216,223),[913,930),[931,940),[1040,1072)}'::int4multirange
    THEN letter + 32
    WHEN letter < 256 THEN letter
    WHEN letter % 2 = 0
        AND letter <@ (
            '{[256,304),[308,312),[330,376),[478,496),[504,544),[546,564),[1120,1154),[1162,1216),'
            '[1232,1328),[7680,7830),[7840,7936)}'
        )::int4multirange
    THEN letter + 1
    WHEN letter % 2 = 1
        AND letter <@ '{[313,319),[321,329),[377,383),[461,477),[1217,1231)}'::int4multirange
    THEN letter + 1
    WHEN letter = 376 THEN 255
    WHEN letter = 902 THEN 940
    WHEN letter BETWEEN 904 AND 906 THEN letter + 37
    WHEN letter = 908 THEN 972
    WHEN letter BETWEEN 910 AND 911 THEN letter + 63
    WHEN letter BETWEEN 1024 AND 1039 THEN letter + 80
    WHEN letter BETWEEN 1329 AND 1366 THEN letter + 48
    ELSE letter
END;

REVOKE ALL ON FUNCTION mailroom.fold_letter(integer) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.fold_letter(integer) IS
    'The small letter of a capital, and any other character as it is; by their numbers in Unicode.';

CREATE FUNCTION mailroom.punycode(label integer[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    digits constant text := 'abcdefghijklmnopqrstuvwxyz0123456789';
    written text := (
        SELECT coalesce(string_agg(chr(t.point), '' ORDER BY nth), '')
        FROM unnest(label) WITH ORDINALITY AS t (point, nth)
        WHERE t.point < 128
    );
    basic constant integer := length(written);
    handled integer := basic;
    lowest integer := 128;
    delta integer := 0;
    bias integer := 72;
    next_point integer;
    point integer;
    rest integer;
    threshold integer;
    step integer;
BEGIN
    IF basic > 0 THEN
        written := written || '-';
    END IF;

    WHILE handled < cardinality(label) LOOP
        next_point := (SELECT min(t.point) FROM unnest(label) AS t (point) WHERE t.point >= lowest);
        delta := delta + (next_point - lowest) * (handled + 1);
        lowest := next_point;

        FOREACH point IN ARRAY label LOOP
            IF point < lowest THEN
                delta := delta + 1;
            ELSIF point = lowest THEN
                -- The number of steps to this place, with digits of variable weight.
                rest := delta;
                step := 36;

                LOOP
                    threshold := greatest(1, least(step - bias, 26));
                    EXIT WHEN rest < threshold;
                    written := written
                        || substr(digits, threshold + (rest - threshold) % (36 - threshold) + 1, 1);
                    rest := (rest - threshold) / (36 - threshold);
                    step := step + 36;
                END LOOP;

                written := written || substr(digits, rest + 1, 1);

                -- How large the next number is likely to be.
                delta := delta / CASE WHEN handled = basic THEN 700 ELSE 2 END;
                handled := handled + 1;
                delta := delta + delta / handled;
                bias := 0;

                WHILE delta > 455 LOOP
                    delta := delta / 35;
                    bias := bias + 36;
                END LOOP;

                bias := bias + 36 * delta / (delta + 38);
                delta := 0;
            END IF;
        END LOOP;

        delta := delta + 1;
        lowest := lowest + 1;
    END LOOP;

    RETURN written;
END;
$$;

REVOKE ALL ON FUNCTION mailroom.punycode(integer[]) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.punycode(integer[]) IS
    'A label of a domain in ASCII, as RFC 3492 writes it, without the prefix.';

CREATE FUNCTION mailroom.to_ascii_label(label integer[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_ascii constant boolean := 128 > ALL (label);
    written text;
BEGIN
    -- What begins as an encoded label does is none if it has other characters.
    IF label[1] = 45
        OR label[cardinality(label)] = 45
        OR NOT is_ascii AND label[1:4] = ARRAY[120, 110, 45, 45]
    THEN
        RETURN NULL;
    END IF;

    IF is_ascii THEN
        written := (
            SELECT string_agg(chr(point), '' ORDER BY nth)
            FROM unnest(label) WITH ORDINALITY AS t (point, nth)
        );
    ELSE
        written := 'xn--' || mailroom.punycode(label);
    END IF;

    RETURN CASE WHEN length(written) <= 63 THEN written END;
END;
$$;

REVOKE ALL ON FUNCTION mailroom.to_ascii_label(integer[]) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.to_ascii_label(integer[]) IS
    'A label of a domain in small letters, in ASCII; null if it cannot be one.';

-- Who encodes a domain maps its characters before (UTS 46): full-width letters and other dots are
-- replaced, invisible characters left out. So that one mailbox has one form, addresses have only
-- characters that are mapped to themselves, and capitals. These are letters, marks and digits of
-- scripts in use, and emoji; the sender compares its own mapping with the same form.
CREATE FUNCTION mailroom.map_address(email text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    stable constant int4multirange :=
        '{[183,184),[192,304),[305,306),[308,319),[321,329),[330,383),[417,418),[432,433),'
        '[461,497),[501,502),[504,544),[545,564),[592,672),[768,832),[891,894),[902,903),'
        '[904,975),[1024,1216),[1217,1367),[1369,1415),[1416,1419),[1421,1525),[1542,1564),'
        '[1565,1653),[1657,1757),[1758,1792),[1872,1920),[2208,2274),[2275,2392),[2400,2520),'
        '[2528,2611),[2613,2614),[2616,2642),[2652,2653),[2662,2904),[2911,3635),[3636,3763),'
        '[3764,3802),[3806,3852),[3853,3907),[3908,3917),[3918,3922),[3923,3927),[3928,3932),'
        '[3933,3945),[3946,3955),[3956,3957),[3962,3969),[3970,3987),[3988,3997),[3998,4002),'
        '[4003,4007),[4008,4012),[4013,4025),[4026,4256),[4304,4348),[4349,4352),[4608,5018),'
        '[6016,6068),[6070,6138),[6400,6688),[6912,7296),[7376,7419),[7680,7834),[7836,7838),'
        '[7839,7936),[9728,10240),[12293,12336),[12353,12443),[12445,12447),[12448,12543),'
        '[12549,12592),[13312,42183),[43136,43823),[43968,55204),[127744,129787),'
        '[131072,192094),[196608,205824)}';
    -- PostgreSQL composes characters in UTF-8 alone.
    -- Of these none is composed of others that stand here, too.
    without_marks constant int4multirange :=
        '{[183,184),[192,768),[880,1155),[1162,1424),[1488,1515),[1569,1611),[3585,3633),'
        '[3634,3636),[3648,3655),[12353,12441),[12445,12544),[13312,40960),[44032,55204)}';
    of_local_part constant int4multirange :=
        '{[33,34),[35,40),[42,44),[45,58),[61,62),[63,64),[65,91),[94,127)}';
    of_domain constant int4multirange := '{[45,47),[48,58),[95,96),[97,123)}';
    is_utf8 constant boolean := mailroom.is_utf8();
    points integer[];
    place integer;
    last_place integer;
    folded text;
    local_part text;
    domain text;
    label text;
BEGIN
    IF octet_length(email) > 254 THEN
        RETURN NULL;
    END IF;

    IF is_utf8 THEN
        points := ARRAY(
            SELECT mailroom.fold_letter(ascii(letter))
            FROM string_to_table(email, NULL) WITH ORDINALITY AS t (letter, nth)
            ORDER BY nth
        );
    ELSE
        points := mailroom.code_points(mailroom.to_utf8(email));
        points := ARRAY(
            SELECT mailroom.fold_letter(point) FROM unnest(points) WITH ORDINALITY AS t (point, nth)
                ORDER BY nth
        );
    END IF;

    place := array_position(points, 64);

    IF place IS NULL OR EXISTS (
        SELECT
        FROM unnest(points) WITH ORDINALITY AS t (point, nth)
        WHERE nth <> place AND NOT (
            CASE
                WHEN point >= 128 THEN point <@ stable AND (is_utf8 OR point <@ without_marks)
                WHEN nth < place THEN point <@ of_local_part
                ELSE point <@ of_domain
            END
        )
    ) THEN
        RETURN NULL;
    END IF;

    -- Servers do not map what stands before the @. Its letters are folded all the same, where it
    -- can be written in this encoding.
    IF is_utf8 THEN
        folded := (
            SELECT string_agg(chr(point), '' ORDER BY nth)
            FROM unnest(points) WITH ORDINALITY AS t (point, nth)
        );
        local_part := split_part(folded, '@', 1);
    ELSE
        local_part := lower(split_part(email, '@', 1) COLLATE "C");
    END IF;

    -- Dots without letters between them need quotes, which count.
    IF local_part = ''
        OR octet_length(convert_to(local_part, 'UTF8'))
            + (CASE WHEN local_part ~ '^[.]|[.][.]|[.]$' THEN 2 ELSE 0 END) > 64
        OR is_utf8 AND NOT folded IS NFC NORMALIZED
    THEN
        RETURN NULL;
    END IF;

    WHILE place IS NOT NULL LOOP
        last_place := place;
        place := array_position(points, 46, last_place + 1);
        label := mailroom.to_ascii_label(points[last_place + 1:coalesce(place,
            cardinality(points) + 1) - 1]);

        IF label IS NULL THEN
            RETURN NULL;
        END IF;

        domain := coalesce(domain || '.', '') || label;
    END LOOP;

    RETURN CASE
        WHEN octet_length(convert_to(local_part, 'UTF8')) + 1 + length(domain) <= 254
        THEN local_part || '@' || domain
    END;
END;
$$;

COMMENT ON FUNCTION mailroom.map_address(text) IS 'As normal_address(), for any address.';

-- Most addresses are of ASCII, and need no more than small letters. Mail servers tell local parts
-- apart by case in theory only, and providers report addresses in lower case.
CREATE FUNCTION mailroom.normal_address(email text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN octet_length(email) = length(email) AND (mailroom.is_utf8() OR email !~ E'[^\\x01-\\x7f]')
    THEN lower(email COLLATE "C")
    ELSE mailroom.map_address(email)
END;

COMMENT ON FUNCTION mailroom.normal_address(text) IS
    'The form of an address by which suppressions are kept and looked up: small letters, and the '
    'domain in ASCII. Null for some of what is no address.';

-- Strict enough that no sender takes it for another one; whether it can be reached is for its mail
-- server to say. In a short one no part can be too long.
CREATE FUNCTION mailroom.is_address(email text) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN octet_length(email) <= 64
        AND email ~ (
            '^[A-Za-z0-9!#$%&''*+/=?^_`{|}~-]+(?:[.][A-Za-z0-9!#$%&''*+/=?^_`{|}~-]+)*'
            '@[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?'
            '(?:[.][A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?)*$'
        )
    THEN true
    ELSE mailroom.map_address(email) IS NOT NULL
END;

COMMENT ON FUNCTION mailroom.is_address(text) IS 'Whether a mail can be addressed to this.';

-- Accounts have whatever an application lets in. What has no @ no sender takes for somebody's
-- address; all else it may read as another one.
CREATE FUNCTION mailroom.is_addressable(email text) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN email NOT LIKE '%@%' OR mailroom.is_address(email);

COMMENT ON FUNCTION mailroom.is_addressable(text) IS
    'Whether an account''s token may be handed to a sender: its email is an address, or none that '
    'could be taken for somebody else''s.';

CREATE FUNCTION mailroom.is_language(tag text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN tag ~ '^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}$';

COMMENT ON FUNCTION mailroom.is_language(text) IS
    'Whether this is a language''s tag, such as de or pt-BR, as in BCP 47.';

-- Browsers, locales and databases write more than a template is chosen by. A mail in the sender's
-- own language is better than none.
CREATE FUNCTION mailroom.language_tag(given text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN mailroom.is_language(given) THEN given
    ELSE substring(
        translate(left(given, 100), '_', '-')
        FROM '^[[:space:]]*([A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3})(?![A-Za-z0-9])'
    )
END;

COMMENT ON FUNCTION mailroom.language_tag(text) IS
    'The language''s tag in this, without what follows it: pt-BR of pt_BR.UTF-8 or '
    'pt-BR-u-nu-latn; null if it does not begin with one.';

-- The secrets of tokens that are used or void go with their rows; those of leases go when the batch
-- is settled, in a moment. Nothing is waited for: a row that a collector is just claiming, or an
-- operator putting back, is taken away by the next claim, which finds the token used or cancelled.
-- Nor does a collector wait for a payload that an open transaction deletes.
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

    DELETE FROM mailroom.payloads
    WHERE token = ANY (ARRAY(
        SELECT token FROM mailroom.payloads WHERE token = ANY (gone)
        FOR UPDATE SKIP LOCKED
    ));

    -- Not `secret IS NOT NULL`, which is the condition of an index by expiry: a plan that was made
    -- for an empty table would use that index, and read all of it.
    UPDATE mailroom.dead_letters
    SET secret = NULL, code = NULL
    WHERE token = ANY (ARRAY(
        SELECT token FROM mailroom.dead_letters
        WHERE token = ANY (gone) AND coalesce(secret, '') <> ''
        FOR UPDATE SKIP LOCKED
    ));
END;
$$;

REVOKE ALL ON FUNCTION mailroom.withdraw(bigint[], text) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.withdraw(bigint[], text) IS
    'Takes tokens out of the queue, with their secrets and payloads, and logs why, '
    'if a reason is given.';

CREATE FUNCTION mailroom.cancel(token bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    epoch bigint := floor(extract(epoch FROM mailroom.clock()));
BEGIN
    UPDATE mailroom.issued_tokens
    SET cancelled_at = epoch
    WHERE id = cancel.token AND consumed_at IS NULL AND cancelled_at IS NULL AND expires_at > epoch;

    IF FOUND THEN
        PERFORM mailroom.withdraw(ARRAY[cancel.token], 'the application cancelled it');
        RETURN true;
    END IF;

    RETURN false;
END;
$$;

COMMENT ON FUNCTION mailroom.cancel(bigint) IS
    'Ends a token that can still be used: its mail is not sent any more, and its link is no longer '
    'good. Answers whether it could.';

CREATE FUNCTION mailroom.cancel_subject(subject_id text, only_proofs boolean DEFAULT false)
    RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    epoch bigint := floor(extract(epoch FROM mailroom.clock()));
    ended bigint[];
BEGIN
    WITH ended AS (
        UPDATE mailroom.issued_tokens
        SET cancelled_at = epoch
        WHERE subject_id = cancel_subject.subject_id
            AND consumed_at IS NULL
            AND cancelled_at IS NULL
            AND expires_at > epoch
            AND (NOT only_proofs OR action IN (SELECT number FROM mailroom.actions
                WHERE proves_address))
        RETURNING id
    )
    SELECT array_agg(id) INTO ended FROM ended;

    IF ended IS NOT NULL THEN
        PERFORM mailroom.withdraw(ended, 'the application cancelled the tokens of its subject');
    END IF;

    RETURN coalesce(cardinality(ended), 0);
END;
$$;

COMMENT ON FUNCTION mailroom.cancel_subject(text, boolean) IS
    'Ends the tokens of a subject that can still be used; with only_proofs those that prove its '
    'address, for when that changes. Answers how many.';

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

DO $$
DECLARE
    signature text;
BEGIN
    -- They are the application's to call, not everybody's.
    FOREACH signature IN ARRAY ARRAY[
        'generate_secret()', 'generate_code(integer)', 'next_token_id()', 'cancel(bigint)',
        'cancel_subject(text, boolean)', 'recheck(text)',
        'enqueue(text, text, text, text, jsonb, text, timestamptz, text, bytea)',
        'browser_code(bytea)'
    ] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION mailroom.%s FROM PUBLIC', signature);
    END LOOP;
END;
$$;

SELECT mailroom.revoke_default_privileges();

COMMIT;

-- Feature: one function uses a token up. It gets the race between two tabs, the expiry, the eligibility of its subject and the
-- tries of a code right.
--
-- Locks: no table; some milliseconds.

BEGIN;

CREATE TYPE mailroom.verdict AS ENUM (
    'ok', 'unknown', 'used', 'expired', 'not_eligible', 'too_many_attempts', 'wrong_code'
);

COMMENT ON TYPE mailroom.verdict IS 'What redeem() answers, in the order in which it looks, ok apart.';

-- Looked up for each call: whoever owns the function may have changed it since it was named.
CREATE FUNCTION mailroom.predicate_name(predicate text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    callable oid := (SELECT oid FROM pg_proc WHERE oid = predicate::regprocedure AND prosecdef);
BEGIN
    IF callable IS NULL THEN
        RAISE EXCEPTION '% is no SECURITY DEFINER function', predicate USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;

    RETURN callable::regproc::text;
END;
$$;

REVOKE ALL ON FUNCTION mailroom.predicate_name(text) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.predicate_name(text) IS
    'The name, to be called by, of a function of eligibility that runs with the rights of its own owner.';

-- In a block of its own, so that an error of the application's function is the mail's alone; a lock that it waits for, a failed
-- assertion and the caller's statement_timeout are errors, too. Once one has taken so long, the others are not asked. It may join as it
-- likes, whatever its caller's plan must not. Fewer rows are declared than claims pick, so that their plan hashes the answers.
CREATE FUNCTION mailroom.ask_eligibility(predicate text, subject_ids text[], OUT subject_id text, OUT email text, OUT name text, OUT fault text)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE ROWS 2
SET search_path = pg_catalog, pg_temp
SET enable_nestloop = on SET enable_mergejoin = on SET lock_timeout = 300 AS $$
BEGIN
    IF clock_timestamp() > statement_timestamp() + interval '4 seconds' THEN
        RETURN QUERY
        SELECT id, NULL::text, NULL::text, format('%s is not asked, because another one takes too long', predicate)
        FROM pg_catalog.unnest(subject_ids) AS id;
        RETURN;
    END IF;

    -- Those of accounts by a plan that is kept: a dynamic statement is planned at each call.
    IF predicate = 'mailroom.provisioned_accounts(text[],boolean)' THEN
        RETURN QUERY
        SELECT answer.*, NULL::text FROM mailroom.provisioned_accounts(subject_ids, false) AS answer;
        RETURN;
    ELSIF predicate = 'mailroom.active_accounts(text[],boolean)' THEN
        RETURN QUERY
        SELECT answer.*, NULL::text FROM mailroom.active_accounts(subject_ids, false) AS answer;
        RETURN;
    END IF;

    -- One answer a subject, however many there are.
    RETURN QUERY EXECUTE format(
        'SELECT DISTINCT ON (1) subject_id::text, email::text, name::text, NULL::text FROM %s($1, false)', mailroom.predicate_name(predicate)
    ) USING subject_ids;
EXCEPTION WHEN OTHERS OR assert_failure OR query_canceled THEN
    -- One subject whom the function fails for, such as an id that it cannot cast, must not keep the
    -- others waiting: each half is asked alone. A lock or a time-out says nothing of a subject.
    IF cardinality(subject_ids) > 1 AND SQLSTATE NOT IN ('57014', '55P03') THEN
        RETURN QUERY
        SELECT half.*
        FROM mailroom.ask_eligibility(predicate, subject_ids[:cardinality(subject_ids) / 2]) AS half
        UNION ALL
        SELECT half.*
        FROM mailroom.ask_eligibility(predicate, subject_ids[cardinality(subject_ids) / 2 + 1:]) AS half;
        RETURN;
    END IF;

    -- Not its message, which may quote a row.
    RETURN QUERY
    SELECT id, NULL::text, NULL::text, format('%s fails with SQLSTATE %s', predicate, SQLSTATE)
    FROM pg_catalog.unnest(subject_ids) AS id;
END;
$$;

REVOKE ALL ON FUNCTION mailroom.ask_eligibility(text, text[]) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.ask_eligibility(text, text[]) IS
    'Which of the subjects may get an action''s mails, by its eligibility function. Those whom it fails for are among them, each with'
    ' the fault.';

CREATE FUNCTION mailroom.count_code_attempt(
    candidate mailroom.issued_tokens, has_code boolean, is_other boolean, secret bytea, code text, epoch bigint
) RETURNS mailroom.verdict
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    for_subject text := coalesce(candidate.subject_id, candidate.recipient_email);
    is_right boolean;
BEGIN
    IF EXISTS (
        SELECT FROM mailroom.code_failures WHERE subject = for_subject AND is_other_browser = is_other AND rests_until > epoch
    ) THEN
        RETURN 'too_many_attempts';
    END IF;

    -- Not in constant time: to learn from how long bytes take to compare one needs far more than five tries.
    IF has_code THEN
        -- The next number, if one is left. In REPEATABLE READ and above a number that the transaction does not see taken
        -- fails as a serialization error.
        INSERT INTO mailroom.code_attempts (token, is_other_browser, ordinal, attempted_at)
        SELECT candidate.id, is_other, count(*) + 1, epoch
        FROM mailroom.code_attempts
        WHERE token = candidate.id AND is_other_browser = is_other
        HAVING count(*) < 5
        ON CONFLICT DO NOTHING
        RETURNING (candidate.code_hash = mailroom.code_hash(count_code_attempt.secret, count_code_attempt.code)) IS TRUE INTO is_right;
    ELSE
        UPDATE mailroom.browser_codes AS shown
        SET tries = tries + 1
        WHERE binding = candidate.binding AND expires_at > epoch AND tries < 5
        RETURNING (shown.code = count_code_attempt.code) IS TRUE INTO is_right;
    END IF;

    IF is_right IS NULL THEN
        RETURN 'too_many_attempts';
    END IF;

    IF is_right THEN
        DELETE FROM mailroom.code_failures WHERE subject = for_subject AND is_other_browser = is_other;
        RETURN 'ok';
    END IF;

    -- From the hundredth on: an hour, doubled by each that follows, up to a day.
    INSERT INTO mailroom.code_failures AS counted (subject, is_other_browser, failures, rests_until)
    VALUES (for_subject, is_other, 1, 0)
    ON CONFLICT ON CONSTRAINT code_failures_pkey DO UPDATE
    SET failures = counted.failures + 1,
        rests_until = CASE
            WHEN counted.failures >= 99
            THEN epoch + least(3600::bigint << least(counted.failures - 99, 5), 86400::bigint)
            ELSE 0::bigint
        END;

    RETURN 'wrong_code';
END;
$$;

REVOKE ALL ON FUNCTION mailroom.count_code_attempt(mailroom.issued_tokens, boolean, boolean, bytea, text, bigint) FROM PUBLIC;

COMMENT ON FUNCTION mailroom.count_code_attempt(mailroom.issued_tokens, boolean, boolean, bytea, text, bigint) IS
    'Counts a try of a token''s code or, where it has none, of the digits that its browser shows, and answers what comes of it.';

-- Locks, in this order: the subject's row, by the action's function; the token's row; then whatever the application changes. Deleting an
-- account takes the same order, and collectors lock neither. Two redemptions in one transaction can wait for each other.
CREATE FUNCTION mailroom.redeem(
    secret bytea,
    action text,
    code text DEFAULT NULL,
    binding_proven boolean DEFAULT false,
    OUT verdict mailroom.verdict,
    OUT token bigint,
    OUT subject_id text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off AS $$
#variable_conflict use_column
DECLARE
    wanted mailroom.actions%ROWTYPE;
    candidate mailroom.issued_tokens%ROWTYPE;
    is_eligible boolean := true;
    is_other boolean;
    present_email text;
    epoch bigint;
    used bigint[];
BEGIN
    verdict := 'unknown';

    -- Every other length would be found if such a row were there, but no link carries it.
    IF octet_length(redeem.secret) IS DISTINCT FROM 32 THEN
        RETURN;
    END IF;

    SELECT * INTO wanted FROM mailroom.actions WHERE name = redeem.action AND path IS NOT NULL;

    -- How long a look-up takes depends on how far the sought value agrees with those in the index: that must tell nothing about
    -- secrets, and tells nothing about them by their hash.
    SELECT * INTO candidate FROM mailroom.issued_tokens AS tokens WHERE consumed_id = mailroom.consumed_id(redeem.secret);

    -- A link for something else is not told from one that was never made.
    IF candidate.action IS DISTINCT FROM wanted.number OR candidate.id IS NULL THEN
        RETURN;
    END IF;

    -- A token never changes its subject, so what was read without a lock says whom to ask for.
    IF wanted.eligibility IS NOT NULL THEN
        EXECUTE format('SELECT email::text FROM %s($1, true)', mailroom.predicate_name(wanted.eligibility))
        INTO present_email USING ARRAY[candidate.subject_id];
        is_eligible := present_email IS NOT NULL;
    END IF;

    SELECT * INTO candidate FROM mailroom.issued_tokens AS tokens WHERE id = candidate.id FOR NO KEY UPDATE;

    -- Deleted while this call waited.
    IF candidate.id IS NULL THEN
        RETURN;
    END IF;

    -- Not the transaction's time, which may have begun long before: the token is judged by the second in which it is
    -- consumed.
    epoch := floor(extract(epoch FROM mailroom.clock()));
    is_other := candidate.binding IS NOT NULL AND redeem.binding_proven IS NOT TRUE;

    -- Whatever can be said without the code is said before it is looked at: a verdict on the code says nothing else, and
    -- no other verdict says anything about the code. Addresses are compared as well as their tokens cancelled by a change: a
    -- transaction of a stricter isolation level that changed one may not have seen the token.
    IF candidate.consumed_at IS NOT NULL THEN
        verdict := 'used';
    ELSIF epoch >= candidate.expires_at
        OR candidate.cancelled_at IS NOT NULL
        OR (wanted.proves_address AND candidate.recipient_email <> present_email COLLATE "C") IS TRUE
    THEN
        verdict := 'expired';
    ELSIF NOT is_eligible THEN
        verdict := 'not_eligible';
    ELSIF is_other AND redeem.code IS NULL THEN
        -- A scanner that opens the link and presses the button takes no try away.
        verdict := 'wrong_code';
    ELSIF wanted.code_digits > 0 OR is_other THEN
        verdict := mailroom.count_code_attempt(candidate, wanted.code_digits > 0, is_other, redeem.secret, redeem.code, epoch);
    ELSE
        -- A code that nothing covers is not looked at and must not seem right.
        verdict := CASE WHEN redeem.code IS NULL THEN 'ok' ELSE 'wrong_code' END;
    END IF;

    IF verdict::text <> 'ok' THEN
        RETURN;
    END IF;

    -- With it go the other tokens that were asked for to the same end: who has got in needs none of them, and the next who
    -- reads that mailbox must not either.
    WITH used AS (
        UPDATE mailroom.issued_tokens AS same
        SET consumed_at = epoch
        WHERE same.id = ANY (ARRAY(
            SELECT candidate.id
            UNION ALL
            SELECT other.id
            FROM mailroom.issued_tokens AS other
            WHERE wanted.proves_address
                AND other.subject_id = candidate.subject_id
                AND other.action = candidate.action
                AND other.recipient_email IS NOT DISTINCT FROM candidate.recipient_email
                AND other.id <> candidate.id
                AND other.consumed_at IS NULL
                AND other.cancelled_at IS NULL
                AND other.expires_at > epoch
        ))
        RETURNING same.id
    )
    SELECT array_agg(id) INTO used FROM used;

    PERFORM mailroom.withdraw(used, true);

    token := candidate.id;
    subject_id := candidate.subject_id;
END;
$$;

COMMENT ON FUNCTION mailroom.redeem(bytea, text, text, boolean) IS
    'Uses a token up, if it is genuine, unused, unexpired, its subject is eligible and, where there is one, the code is right; answers why'
    ' not otherwise, and the token and its subject on ok. Commit whatever it answers: a rollback takes the counted try back. Unless'
    ' binding_proven a bound token needs a code in any case, of an action without codes that of browser_code().';

-- It is the application's to call, not everybody's.
REVOKE ALL ON FUNCTION mailroom.redeem(bytea, text, text, boolean) FROM PUBLIC;

COMMIT;

-- One function uses a token up. It gets the race between two tabs, the expiry, the eligibility of
-- its subject and the tries of a code right.

CREATE TYPE mailroom.verdict AS ENUM (
    'ok', 'unknown', 'used', 'expired', 'not_eligible', 'too_many_attempts', 'wrong_code'
);

COMMENT ON TYPE mailroom.verdict IS
    'What redeem() answers, in the order in which it looks, ok apart.';

-- Both kinds of digits are checked together, as one try with one verdict: whoever has only one of
-- them does not learn whether it is right.
CREATE FUNCTION mailroom.count_code_attempt(
    candidate mailroom.issued_tokens,
    has_code boolean,
    is_other boolean,
    secret bytea,
    code text,
    browser_code text,
    epoch bigint
) RETURNS mailroom.verdict
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    for_subject text := coalesce(candidate.subject_id,
        mailroom.normal_address(candidate.recipient_email), candidate.recipient_email);
    rest_ends_at bigint;
    counted_failures integer;
    -- Null where no try is left.
    is_right boolean := true;
    is_shown boolean := true;
    answer mailroom.verdict;
BEGIN
    -- Locks the count before it is read: tries in parallel would all find it below a hundred.
    INSERT INTO mailroom.code_failures AS counted (subject, is_other_browser, failures, rests_until)
    VALUES (for_subject, is_other, 0, epoch)
    ON CONFLICT ON CONSTRAINT code_failures_pkey DO UPDATE SET failures = counted.failures
    RETURNING counted.rests_until INTO rest_ends_at;

    IF rest_ends_at > epoch THEN
        RETURN 'too_many_attempts';
    END IF;

    -- Not in constant time: to learn from how long bytes take to compare one needs far
    -- more than five tries.
    IF has_code THEN
        -- The next number, if one is left. In REPEATABLE READ and above a number that the
        -- transaction does not see taken fails as a serialization error.
        INSERT INTO mailroom.code_attempts (token, is_other_browser, ordinal, attempted_at)
        SELECT candidate.id, is_other, count(*) + 1, epoch
        FROM mailroom.code_attempts
        WHERE token = candidate.id AND is_other_browser = is_other
        HAVING count(*) < 5
        ON CONFLICT DO NOTHING
        RETURNING (candidate.code_hash = mailroom.code_hash(count_code_attempt.secret,
            count_code_attempt.code)) IS TRUE INTO is_right;
    END IF;

    IF is_other AND is_right IS NOT NULL THEN
        UPDATE mailroom.browser_codes AS shown
        SET tries = tries + 1
        WHERE binding = candidate.binding AND expires_at > epoch AND tries < 5
        RETURNING (shown.code = count_code_attempt.browser_code) IS TRUE INTO is_shown;
    END IF;

    answer := CASE
        WHEN is_right IS NULL OR is_shown IS NULL THEN 'too_many_attempts'
        WHEN is_right AND is_shown THEN 'ok'
        ELSE 'wrong_code'
    END;

    IF answer = 'wrong_code' THEN
        -- From the hundredth on: an hour, doubled by each that follows, up to a day.
        UPDATE mailroom.code_failures AS counted
        SET failures = counted.failures + 1,
            rests_until = CASE
                WHEN counted.failures >= 99
                THEN epoch + least(3600::bigint << least(counted.failures - 99, 5), 86400::bigint)
                ELSE epoch
            END
        WHERE subject = for_subject AND is_other_browser = is_other
        RETURNING counted.failures INTO counted_failures;

        IF counted_failures >= 100 THEN
            PERFORM mailroom.notify_of_codes(candidate, for_subject, epoch);
        END IF;
    ELSE
        -- A right one ends the count; where nothing was tried, the row is not left that was made
        -- above.
        DELETE FROM mailroom.code_failures
        WHERE subject = for_subject AND is_other_browser = is_other
            AND (answer = 'ok' OR failures = 0)
            AND (noticed_at > epoch - 86400) IS NOT TRUE;

        IF NOT FOUND AND answer = 'ok' THEN
            UPDATE mailroom.code_failures
            SET failures = 0
            WHERE subject = for_subject AND is_other_browser = is_other;
        END IF;
    END IF;

    RETURN answer;
END;
$$;

COMMENT ON FUNCTION mailroom.count_code_attempt(mailroom.issued_tokens, boolean, boolean, bytea,
    text, text, bigint) IS
    'Counts a try of a token''s code, of the digits that its browser shows, or of both, and '
    'answers what comes of it.';

-- Whoever has got in needs no other token that was asked for to the same end, and the next who
-- reads that mailbox must not have one either. And whoever has taken an account back need not fear
-- a change of its address that somebody else asked for.
CREATE FUNCTION mailroom.end_others(
    used mailroom.issued_tokens,
    wanted mailroom.actions,
    locked bigint[],
    epoch bigint
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    others bigint[];
    ended bigint[];
BEGIN
    IF NOT wanted.proves_address AND wanted.name <> 'recover' THEN
        RETURN;
    END IF;

    others := mailroom.living_tokens(pg_catalog.array_remove(locked, used.id), epoch);

    WITH ended AS (
        UPDATE mailroom.issued_tokens AS tokens
        SET consumed_at = epoch
        WHERE id = ANY (others)
            AND wanted.proves_address
            AND tokens.action = used.action
            AND tokens.recipient_email IS NOT DISTINCT FROM used.recipient_email
        RETURNING id
    )
    SELECT array_agg(id) INTO ended FROM ended;

    IF ended IS NOT NULL THEN
        PERFORM mailroom.withdraw(ended, 'another link that proves the same address was used');
    END IF;

    WITH ended AS (
        UPDATE mailroom.issued_tokens AS tokens
        SET cancelled_at = epoch
        WHERE id = ANY (others)
            AND wanted.name = 'recover'
            AND tokens.action = (SELECT number FROM mailroom.actions WHERE name = 'change_email')
        RETURNING id
    )
    SELECT array_agg(id) INTO ended FROM ended;

    IF ended IS NOT NULL THEN
        PERFORM mailroom.withdraw(
            ended, 'its subject was recovered, which ends changes of address'
        );
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.end_others(mailroom.issued_tokens, mailroom.actions, bigint[],
    bigint) IS
    'Ends what a use makes needless, of those that lock_links() has locked: tokens that prove the '
    'same address, and after a recovery changes of address.';

-- Locks, in this order: the subject's row, by the action's function; the token's row; then whatever
-- the application changes. Deleting an account takes the same order. Collectors wait for neither,
-- and lock the token's row only where a broker says late that its mail was sent.
-- Two redemptions in one transaction can wait for each other.
CREATE FUNCTION mailroom.use_token(
    secret bytea,
    action text,
    code text,
    binding_proven boolean,
    browser_code text,
    OUT verdict mailroom.verdict,
    OUT token bigint,
    OUT subject_id text
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    wanted mailroom.actions%ROWTYPE;
    candidate mailroom.issued_tokens%ROWTYPE;
    is_eligible boolean := true;
    is_other boolean;
    present_email text;
    locked bigint[];
    epoch bigint;
BEGIN
    verdict := 'unknown';

    -- Every other length would be found if such a row were there, but no link carries it.
    IF octet_length(use_token.secret) IS DISTINCT FROM 32 THEN
        RETURN;
    END IF;

    SELECT * INTO wanted FROM mailroom.actions WHERE name = use_token.action AND path IS NOT NULL;

    -- How long a look-up takes depends on how far the sought value agrees with those in the index:
    -- that must tell nothing about secrets, and tells nothing about them by their hash.
    SELECT * INTO candidate FROM mailroom.issued_tokens AS tokens
        WHERE consumed_id = mailroom.consumed_id(use_token.secret);

    -- A link for something else is not told from one that was never made.
    IF candidate.action IS DISTINCT FROM wanted.number OR candidate.id IS NULL THEN
        RETURN;
    END IF;

    -- A token never changes its subject, so what was read without a lock says whom to ask for.
    IF wanted.eligibility IS NOT NULL THEN
        EXECUTE format(
            'SELECT email FROM (SELECT %s, %s FROM %s) AS answer
            WHERE subject_id OPERATOR(pg_catalog.=) $1[1] COLLATE pg_catalog."C"',
            mailroom.text_column('subject_id'), mailroom.text_column('email'),
            mailroom.predicate_call(wanted.eligibility, true)
        )
        INTO present_email USING ARRAY[candidate.subject_id];

        -- The function may have changed it, and what follows must not find
        -- operators of its owner's.
        PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        is_eligible := present_email IS NOT NULL;
    END IF;

    -- Otherwise two calls for tokens of one subject would each lock its own and then wait for the
    -- other's: another action's, or cancel_subject(), ask no predicate, which would lock the
    -- subject first. What the application does with a change of address ends the others.
    IF wanted.proves_address OR wanted.name IN ('recover', 'change_email') THEN
        locked := mailroom.lock_links(candidate.subject_id, candidate.id);
    END IF;

    SELECT * INTO candidate FROM mailroom.issued_tokens AS tokens
        WHERE id = candidate.id FOR NO KEY UPDATE;

    -- Deleted while this call waited.
    IF candidate.id IS NULL THEN
        RETURN;
    END IF;

    -- Not the transaction's time, which may have begun long before: the token is checked by the
    -- second in which it is consumed.
    epoch := floor(extract(epoch FROM mailroom.clock()));
    is_other := candidate.binding IS NOT NULL AND use_token.binding_proven IS NOT TRUE;

    -- Whatever can be said without the code is said before it is looked at: a verdict on the code
    -- says nothing else, and no other verdict says anything about the code. Addresses are compared
    -- as well as their tokens cancelled by a change: a transaction of a stricter isolation level
    -- that changed one may not have seen the token.
    IF candidate.consumed_at IS NOT NULL THEN
        verdict := 'used';
    ELSIF epoch >= candidate.expires_at
        OR candidate.cancelled_at IS NOT NULL
        OR (
            wanted.proves_address
            AND candidate.recipient_email <> present_email COLLATE "C"
            AND mailroom.normal_address(candidate.recipient_email) IS DISTINCT
                FROM mailroom.normal_address(present_email)
        ) IS TRUE
    THEN
        verdict := 'expired';
    ELSIF NOT is_eligible THEN
        verdict := 'not_eligible';
    ELSIF wanted.code_digits = 0 AND use_token.code IS NOT NULL THEN
        -- A code that nothing covers is not looked at and must not seem right.
        verdict := 'wrong_code';
    ELSIF is_other AND (
        use_token.browser_code IS NULL OR (wanted.code_digits > 0 AND use_token.code IS NULL)
    ) THEN
        -- A scanner that opens the link and presses the button takes no try away.
        verdict := 'wrong_code';
    ELSIF wanted.code_digits > 0 OR is_other THEN
        verdict := mailroom.count_code_attempt(
            candidate, wanted.code_digits > 0, is_other, use_token.secret, use_token.code,
            use_token.browser_code, epoch
        );
    ELSE
        verdict := 'ok';
    END IF;

    IF verdict::text <> 'ok' THEN
        RETURN;
    END IF;

    UPDATE mailroom.issued_tokens AS tokens SET consumed_at = epoch WHERE id = candidate.id;
    PERFORM mailroom.withdraw(ARRAY[candidate.id], 'it was used');
    PERFORM mailroom.end_others(candidate, wanted, locked, epoch);
    PERFORM mailroom.notify_of_use(candidate, wanted, present_email);
    token := candidate.id;
    subject_id := candidate.subject_id;
END;
$$;

COMMENT ON FUNCTION mailroom.use_token(bytea, text, text, boolean, text) IS
    'The work of redeem(), which watches over it.';

-- Without a search path of its own, which would hide whether a function of eligibility has changed
-- that of the session for good: a plain SET in it outlasts every SET clause around it. So all names
-- have their schema here, those of types and operators too.
CREATE FUNCTION mailroom.redeem(
    secret bytea,
    action text,
    code text DEFAULT NULL,
    binding_proven boolean DEFAULT false,
    browser_code text DEFAULT NULL,
    OUT verdict mailroom.verdict,
    OUT token bigint,
    OUT subject_id text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    path pg_catalog.text := pg_catalog.current_setting('search_path');
BEGIN
    SELECT used.verdict, used.token, used.subject_id
    INTO redeem.verdict, redeem.token, redeem.subject_id
    FROM mailroom.use_token(
        redeem.secret, redeem.action, redeem.code, redeem.binding_proven, redeem.browser_code
    ) AS used;

    IF pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.<>) path THEN
        RAISE EXCEPTION
            'mailroom.redeem(): the eligibility function of the action % changes the search_path '
            'of the session', redeem.action
            USING ERRCODE = 'object_not_in_prerequisite_state',
                HINT = 'Give it a SET clause, as by ALTER FUNCTION ... SET search_path = '
                    'pg_catalog, pg_temp.';
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.redeem(bytea, text, text, boolean, text) IS
    'Uses a token up, if it is genuine, unused, unexpired, its subject is eligible and, where '
    'there is one, the code is right; answers why not otherwise, and the token and its subject on '
    'ok. Commit whatever it answers: a rollback takes the counted try back. Unless binding_proven '
    'a bound token needs the digits of browser_code(), beside its code if it has one.';

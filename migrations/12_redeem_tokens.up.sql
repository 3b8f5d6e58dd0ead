-- Fault: consuming was left to each application's own UPDATE, which had to get the race between two tabs, the expiry, the
-- account's status and the tries of a code right. It activated nothing for a suspended account and reported success.
-- One function does all of it now.
--
-- Locks: no table; some milliseconds.

BEGIN;

-- Outlives the tokens that were tried, so that deleting them gives nobody more tries.
CREATE TABLE code_failures (
    account bigint NOT NULL,
    failures integer NOT NULL,
    rests_until bigint NOT NULL,

    CONSTRAINT code_failures_pkey PRIMARY KEY (account),
    CONSTRAINT code_failures_account_fkey FOREIGN KEY (account) REFERENCES accounts (id) ON DELETE CASCADE
);

COMMENT ON TABLE code_failures IS
    'How many wrong codes were entered in a row for an account, over all of its tokens (NIST SP 800-63B allows a hundred). A'
    ' right code deletes the row.';
COMMENT ON COLUMN code_failures.account IS 'The account.';
COMMENT ON COLUMN code_failures.failures IS 'Wrong codes since the last right one.';
COMMENT ON COLUMN code_failures.rests_until IS
    'Until then its recoveries are neither made nor used, in seconds since the Unix epoch; 0 before the hundredth.';

CREATE TYPE redeem_verdict AS ENUM (
    'ok', 'unknown', 'used', 'expired', 'not_eligible', 'too_many_attempts', 'wrong_code'
);

COMMENT ON TYPE redeem_verdict IS 'What mailroom_redeem() answers, in the order in which it looks, ok apart.';

-- A body of standard SQL is bound when it is created and needs no search path. As text for the reason given below; STABLE as the cast
-- is, since a function that claims more than its body is not inlined.
CREATE FUNCTION status_needed_by(action token_action) RETURNS account_status
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE action::text
    WHEN 'activation' THEN 'provisioned'::account_status
    WHEN 'password_recovery' THEN 'active'::account_status
END;

COMMENT ON FUNCTION status_needed_by(token_action) IS
    'Status that an account must have for a token of this action to be sent and used.';

-- Runs with the rights of its owner, so that an application needs none on tokens. Nothing on the search path can step in
-- for a built-in function or operator as long as the types of arguments are exactly those of the built-in one; enums and
-- varchars are cast to text for that reason.
--
-- Locks, in this order: the account's row, the rows of its tokens, then whatever an activation changes. Deleting an account
-- takes the same order, status changes stop at the first, and collectors lock neither, so that no two of them wait for
-- each other. Two redemptions in one transaction can, and so can an UPDATE of consumed_at by hand.
CREATE FUNCTION mailroom_redeem(
    secret bytea,
    action token_action,
    code text DEFAULT NULL,
    OUT verdict redeem_verdict,
    OUT account bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    candidate tokens%ROWTYPE;
    status text;
    email text;
    epoch bigint;
    wrong integer;
    rests_until bigint;
BEGIN
    verdict := 'unknown';

    -- Every other length would be found if such a row were there, but no link carries it.
    IF octet_length(mailroom_redeem.secret) IS DISTINCT FROM 32 THEN
        RETURN;
    END IF;

    SELECT * INTO candidate
    FROM tokens
    WHERE mailroom_consumed_id(tokens.secret) = mailroom_consumed_id(mailroom_redeem.secret);

    -- A link for something else is not told from one that was never made.
    IF candidate.action::text IS DISTINCT FROM mailroom_redeem.action::text OR candidate.id IS NULL THEN
        RETURN;
    END IF;

    -- A token never changes accounts, so what was read without a lock says which row to lock.
    SELECT accounts.status::text, accounts.email::text INTO status, email
    FROM accounts
    WHERE accounts.id = candidate.account
    FOR NO KEY UPDATE;

    SELECT * INTO candidate FROM tokens WHERE tokens.id = candidate.id FOR NO KEY UPDATE;

    -- Deleted while this call waited.
    IF candidate.id IS NULL THEN
        RETURN;
    END IF;

    -- Not the transaction's time, which may have begun long before: the token is judged by the second in which it is
    -- consumed.
    epoch := floor(extract(epoch FROM clock_timestamp()));

    -- Whatever can be said without the code is said before it is looked at: a verdict on the code says nothing else, and
    -- no other verdict says anything about the code.
    IF candidate.consumed_at IS NOT NULL THEN
        verdict := 'used';
        RETURN;
    END IF;

    -- A link confirms the address that it was sent to, and no other. Compared as well as cancelled by a change: a transaction
    -- of a stricter isolation level that changed the address may not have seen the token.
    IF epoch >= candidate.expires_at
        OR candidate.cancelled_at IS NOT NULL
        OR (candidate.recipient::text <> email COLLATE "C") IS TRUE
    THEN
        verdict := 'expired';
        RETURN;
    END IF;

    IF status IS DISTINCT FROM status_needed_by(candidate.action)::text THEN
        verdict := 'not_eligible';
        RETURN;
    END IF;

    IF candidate.action::text = 'password_recovery' THEN
        SELECT code_failures.failures, code_failures.rests_until INTO wrong, rests_until
        FROM code_failures
        WHERE code_failures.account = candidate.account;

        IF rests_until > epoch THEN
            verdict := 'too_many_attempts';
            RETURN;
        END IF;

        -- The next number, if one is left. In REPEATABLE READ and above a number that the transaction does not see taken
        -- fails as a serialization error.
        INSERT INTO code_attempts (token, ordinal, attempted_at)
        SELECT candidate.id, count(*) + 1, epoch
        FROM code_attempts
        WHERE code_attempts.token = candidate.id
        HAVING count(*) < 5
        ON CONFLICT DO NOTHING;

        IF NOT FOUND THEN
            verdict := 'too_many_attempts';
            RETURN;
        END IF;

        -- Not in constant time: to learn from how long five bytes take to compare one needs far more than five tries.
        IF (candidate.code::text = mailroom_redeem.code COLLATE "C") IS NOT TRUE THEN
            -- The account's row is locked, so nobody else counts for it. From the hundredth on: an hour, doubled by each that
            -- follows, up to a day.
            INSERT INTO code_failures AS counted (account, failures, rests_until)
            VALUES (candidate.account, 1, 0)
            ON CONFLICT ON CONSTRAINT code_failures_pkey DO UPDATE
            SET failures = counted.failures + 1,
                rests_until = CASE
                    WHEN counted.failures >= 99
                    THEN epoch + least(3600::bigint << least(counted.failures - 99, 5), 86400::bigint)
                    ELSE 0::bigint
                END;

            verdict := 'wrong_code';
            RETURN;
        END IF;

        IF wrong IS NOT NULL THEN
            DELETE FROM code_failures WHERE code_failures.account = candidate.account;
        END IF;
    ELSIF mailroom_redeem.code IS NOT NULL THEN
        -- Nothing covers the code of an activation, and a code that is not looked at must not seem right.
        verdict := 'wrong_code';
        RETURN;
    END IF;

    -- With it go the other tokens that were asked for to the same end: who has got in needs none of them, and the next who
    -- reads that mailbox must not either.
    UPDATE tokens
    SET consumed_at = epoch
    WHERE tokens.account = candidate.account
        AND tokens.action::text = candidate.action::text
        AND tokens.consumed_at IS NULL
        AND tokens.cancelled_at IS NULL
        AND tokens.expires_at > epoch;

    verdict := 'ok';
    account := candidate.account;
END;
$$;

DO $$
DECLARE
    home name := (
        SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE pg_class.oid = 'tokens'::regclass
    );
BEGIN
    EXECUTE format(
        'ALTER FUNCTION mailroom_redeem(bytea, token_action, text) SET search_path = pg_catalog, %I, pg_temp', home
    );
    -- Its plans must not depend on how full the tables were when a session first called it: an index is right in every case.
    EXECUTE 'ALTER FUNCTION mailroom_redeem(bytea, token_action, text) SET plan_cache_mode = force_generic_plan';
    EXECUTE 'ALTER FUNCTION mailroom_redeem(bytea, token_action, text) SET enable_seqscan = off';
    EXECUTE 'ALTER FUNCTION mailroom_redeem(bytea, token_action, text) SET jit = off';
END;
$$;

COMMENT ON FUNCTION mailroom_redeem(bytea, token_action, text) IS
    'Uses a token up, if it is genuine, unused, unexpired, its account has the right status and, for a recovery, the code'
    ' is right; answers why not otherwise, and the account on ok. Commit whatever it answers: a rollback takes the'
    ' counted try back.';

-- It is the application's to call, not everybody's.
REVOKE ALL ON FUNCTION mailroom_redeem(bytea, token_action, text) FROM PUBLIC;

COMMIT;

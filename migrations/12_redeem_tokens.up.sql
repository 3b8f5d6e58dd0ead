-- Fault: consuming was left to each application's own UPDATE, which had to get the race between two tabs, the expiry, the
-- account's status and the tries of a code right. It activated nothing for a suspended account and reported success.
-- One function does all of it now.
--
-- Locks: no table; some milliseconds.

BEGIN;

CREATE TYPE redeem_verdict AS ENUM (
    'ok', 'unknown', 'used', 'expired', 'not_eligible', 'too_many_attempts', 'wrong_code'
);

COMMENT ON TYPE redeem_verdict IS 'What mailroom_redeem() answers, in the order in which it looks, ok apart.';

-- A body of standard SQL is bound when it is created and needs no search path. As text for the reason given below.
CREATE FUNCTION status_needed_by(action token_action) RETURNS account_status
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
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
    epoch bigint;
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
    SELECT accounts.status::text INTO status FROM accounts WHERE accounts.id = candidate.account FOR NO KEY UPDATE;
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

    IF epoch >= candidate.expires_at THEN
        verdict := 'expired';
        RETURN;
    END IF;

    IF status IS DISTINCT FROM status_needed_by(candidate.action)::text THEN
        verdict := 'not_eligible';
        RETURN;
    END IF;

    IF candidate.action::text = 'password_recovery' THEN
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
            verdict := 'wrong_code';
            RETURN;
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
END;
$$;

COMMENT ON FUNCTION mailroom_redeem(bytea, token_action, text) IS
    'Uses a token up, if it is genuine, unused, unexpired, its account has the right status and, for a recovery, the code'
    ' is right; answers why not otherwise, and the account on ok. Commit whatever it answers: a rollback takes the'
    ' counted try back.';

-- It is the application's to call, not everybody's.
REVOKE ALL ON FUNCTION mailroom_redeem(bytea, token_action, text) FROM PUBLIC;

COMMIT;

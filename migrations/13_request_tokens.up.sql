-- Fault: each application inserted tokens on request by itself, and had to keep inboxes from being flooded and its pages
-- from telling who has an account. One function does it now.
--
-- Locks: no table; some milliseconds.

BEGIN;

-- Takes the same steps and answers the same, nothing, for whatever it is given: no account, an account of the wrong status,
-- one that was served lately, or one that gets a token. It never waits, because only a call for somebody who exists would:
-- of calls at the same time for one account the first serves it and the others are in its cooldown. That is told by an
-- advisory lock, which is taken for people who do not exist as well.
--
-- Runs with the rights of its owner; on its search path see mailroom_redeem().
--
-- Locks: the account's row, if it is free: a foreign key would wait for it at the commit, and only for an account that exists. Who
-- asks while an account is being changed gets nothing, and asks again. And the tables, as an insert does, but for whoever asks.
CREATE FUNCTION mailroom_request(
    email_or_login text,
    action token_action,
    cooldown interval DEFAULT '60 seconds',
    at_most integer DEFAULT 5,
    per interval DEFAULT '1 hour'
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    -- No column is longer. What is longer than this is found by nobody, and is not hashed in full.
    wanted text := left(mailroom_request.email_or_login, 255);
    epoch bigint := floor(extract(epoch FROM clock_timestamp()));
    cooldown_seconds numeric := extract(epoch FROM mailroom_request.cooldown);
    period_seconds numeric := extract(epoch FROM mailroom_request.per);
    candidate bigint;
    status text;
    email text;
    rests_until bigint;
    newest bigint;
    made bigint;
    is_locked boolean;
BEGIN
    IF (cooldown_seconds >= 0::numeric AND mailroom_request.at_most >= 1 AND period_seconds >= 0::numeric) IS NOT TRUE THEN
        RAISE EXCEPTION 'the limits of mailroom_request() are out of range'
            USING ERRCODE = 'invalid_parameter_value',
                HINT = 'cooldown and per are intervals of zero seconds or more, at_most is 1 or more.';
    END IF;

    -- In the others the transaction may have begun to look before another call made a token, and make a second one.
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'mailroom_request() does not work in % transactions', current_setting('transaction_isolation')
            USING ERRCODE = 'invalid_transaction_state',
                HINT = 'Call it in a transaction of its own, with the isolation level READ COMMITTED.';
    END IF;

    -- Where a migration or an index has them locked, everybody waits.
    LOCK TABLE accounts IN ROW SHARE MODE;
    LOCK TABLE tokens IN ROW EXCLUSIVE MODE;

    -- A login may look like somebody else's email: whose email it is goes first.
    SELECT accounts.id INTO candidate
    FROM accounts
    WHERE accounts.email::text = wanted OR accounts.login::text = wanted
    ORDER BY accounts.email::text = wanted DESC
    LIMIT 1;

    -- Of calls at the same time for one account the others find its row locked. An advisory lock would do for people who do not
    -- exist as well, but every role can see and take those.
    PERFORM FROM accounts WHERE accounts.id = coalesce(candidate, 0::bigint) FOR NO KEY UPDATE SKIP LOCKED;
    is_locked := FOUND;

    -- As it is now that it cannot change: the status by which the token is judged, and the address that it is for.
    SELECT accounts.status::text, accounts.email::text INTO status, email
    FROM accounts
    WHERE accounts.id = coalesce(candidate, 0::bigint);

    SELECT code_failures.rests_until INTO rests_until
    FROM code_failures
    WHERE code_failures.account = coalesce(candidate, 0::bigint);

    SELECT max(tokens.created_at), count(*) FILTER (WHERE tokens.created_at::numeric > epoch::numeric - period_seconds)
    INTO newest, made
    FROM tokens
    WHERE tokens.account = coalesce(candidate, 0::bigint)
        AND tokens.action::text = mailroom_request.action::text;

    IF is_locked
        AND (rests_until > epoch) IS NOT TRUE
        AND status = status_needed_by(mailroom_request.action)::text
        -- A time ahead of the clock, which may have been set back, counts as now.
        AND (newest IS NULL OR least(newest, epoch)::numeric <= epoch::numeric - cooldown_seconds)
        AND made < mailroom_request.at_most::bigint
    THEN
        INSERT INTO tokens (account, action, created_at, recipient)
        VALUES (candidate, mailroom_request.action, epoch, email);
    END IF;

    -- A commit that has nothing to write returns at once, and one that has waits for the disk: the greatest difference of
    -- all. This writes some bytes to the log in any case, and nowhere else.
    PERFORM pg_catalog.pg_logical_emit_message(true, 'mailroom', ''::text);
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
        'ALTER FUNCTION mailroom_request(text, token_action, interval, integer, interval)'
        ' SET search_path = pg_catalog, %I, pg_temp',
        home
    );
    -- As for mailroom_redeem().
    EXECUTE 'ALTER FUNCTION mailroom_request(text, token_action, interval, integer, interval) SET plan_cache_mode = force_generic_plan';
    EXECUTE 'ALTER FUNCTION mailroom_request(text, token_action, interval, integer, interval) SET enable_seqscan = off';
    EXECUTE 'ALTER FUNCTION mailroom_request(text, token_action, interval, integer, interval) SET jit = off';
END;
$$;

COMMENT ON FUNCTION mailroom_request(text, token_action, interval, integer, interval) IS
    'Makes a token for the account with this email or, if there is none, this login, if the account has the status that'
    ' the action needs, got none of this action for the time of cooldown, and fewer than at_most within per. Answers'
    ' nothing and takes the same steps whether it did or not.';

-- It is the application's to call, not everybody's.
REVOKE ALL ON FUNCTION mailroom_request(text, token_action, interval, integer, interval) FROM PUBLIC;

COMMIT;

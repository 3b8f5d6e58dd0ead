-- Somebody asks for a mail by an address or a name.

-- Takes the same steps and answers the same, nothing, for whatever it is given: no account, one
-- that is not eligible, one that was served lately, or one that gets a token. It never waits,
-- because only a call for somebody who exists would: of calls at the same time for one account the
-- first serves it and the others find its row locked.
--
-- Locks: the account's row, if it is free: a foreign key would wait for it at the commit, and only
-- for an account that exists. Who asks while an account is being changed gets nothing, and asks
-- again. And the tables, as an insert does, but for whoever asks.
CREATE FUNCTION mailroom.request(
    email_or_login text,
    action text,
    cooldown interval DEFAULT NULL,
    at_most integer DEFAULT 5,
    per interval DEFAULT '1 hour',
    binding bytea DEFAULT NULL,
    traceparent text DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    action_row mailroom.actions%ROWTYPE;
    -- No column is longer. What is longer than this is found by nobody, and is not hashed in full.
    wanted text := left(request.email_or_login, 255);
    epoch bigint := floor(extract(epoch FROM mailroom.clock()));
    cooldown_seconds numeric;
    period_seconds numeric := extract(epoch FROM request.per);
    candidate bigint;
    present record;
    resting bigint;
    newest bigint;
    made bigint;
    bound bytea := request.binding;
    is_locked boolean;
    is_eligible boolean;
    outer_binding text := current_setting('mailroom.binding', true);
    outer_traceparent text := current_setting('mailroom.traceparent', true);
BEGIN
    SELECT * INTO action_row FROM mailroom.actions WHERE name = request.action AND NOT is_retired;

    IF action_row.eligibility IS NULL THEN
        RAISE EXCEPTION 'mailroom.request(): there is no such action for accounts'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    IF octet_length(request.binding) <> 16 THEN
        RAISE EXCEPTION 'mailroom.request(): binding is not of 16 bytes'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    cooldown_seconds := extract(epoch FROM coalesce(request.cooldown, action_row.cooldown));

    -- Tokens are kept as long as the longest of these that was ever asked for.
    IF (cooldown_seconds BETWEEN 0::numeric AND 2678400::numeric
        AND period_seconds BETWEEN 0::numeric AND 2678400::numeric
        AND request.at_most >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION 'the limits of mailroom.request() are out of range'
            USING ERRCODE = 'invalid_parameter_value',
                HINT = 'cooldown and per are intervals from zero seconds to 31 days, '
                    'at_most is 1 or more.';
    END IF;

    -- In the others the transaction may have begun to look before another call made a token, and
    -- make a second one.
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'mailroom.request() does not work in % transactions',
            current_setting('transaction_isolation')
            USING ERRCODE = 'invalid_transaction_state',
                HINT = 'Call it in a transaction of its own, with the isolation level READ '
                    'COMMITTED.';
    END IF;

    -- Until then the tokens that this counts are not pruned.
    PERFORM setval('mailroom.longest_limit', asked.seconds)
    FROM (
        SELECT ceil(greatest(cooldown_seconds, period_seconds))::bigint AS seconds
    ) AS asked
    JOIN mailroom.longest_limit AS longest ON longest.last_value < asked.seconds;

    -- Where a migration or an index has them locked, everybody waits.
    LOCK TABLE mailroom.adopted_accounts IN ROW SHARE MODE;
    LOCK TABLE mailroom.adopted_tokens IN ROW EXCLUSIVE MODE;

    -- A login may look like somebody else's email: whose email it is goes first.
    SELECT id INTO candidate
    FROM mailroom.adopted_accounts AS accounts
    WHERE accounts.email::text = wanted OR accounts.login::text = wanted
    ORDER BY accounts.email::text = wanted DESC
    LIMIT 1;

    -- Of calls at the same time for one account the others find its row locked. An advisory lock
    -- would do for people who do not exist as well, but every role can see and take those.
    PERFORM FROM mailroom.adopted_accounts AS accounts
        WHERE id = coalesce(candidate, 0::bigint) FOR NO KEY UPDATE SKIP LOCKED;
    is_locked := FOUND;

    -- As it is now that it cannot change: the status by which the token is checked, and the address
    -- that it is for.
    SELECT answer.email, answer.name, answer.subject_id INTO present
    FROM mailroom.ask_eligibility(action_row.eligibility,
        ARRAY[coalesce(candidate, 0::bigint)::text]) AS answer
    WHERE answer.fault IS NULL;
    is_eligible := present.subject_id IS NOT NULL;

    SELECT rests_until INTO resting FROM mailroom.code_failures
    WHERE subject = coalesce(candidate, 0::bigint)::text AND NOT is_other_browser;

    SELECT max(created_at), count(*) FILTER (WHERE created_at::numeric > epoch::numeric -
        period_seconds)
    INTO newest, made
    FROM mailroom.issued_tokens AS tokens
    WHERE subject_id = coalesce(candidate, 0::bigint)::text AND tokens.action = action_row.number;

    -- The last mail within the period, of several, is for any browser, where it has a code beside
    -- its link: a stranger who asks for all of them, bound to browsers of his own, would leave the
    -- account's owner none that she can use.
    IF action_row.code_digits > 0 AND made > 0 AND made = request.at_most::bigint - 1 THEN
        bound := NULL;
    END IF;

    PERFORM set_config('mailroom.binding', coalesce(encode(bound, 'hex'), ''::text), true);
    -- Most calls name no trace: what the setting says stays.
    IF request.traceparent IS NOT NULL THEN
        PERFORM set_config('mailroom.traceparent',
            coalesce(mailroom.traceparent(request.traceparent), ''::text), true);
    END IF;

    IF is_locked
        AND is_eligible
        AND (resting > epoch) IS NOT TRUE
        -- A time ahead of the clock, which may have been set back, counts as now.
        AND (newest IS NULL OR least(newest, epoch)::numeric <= epoch::numeric - cooldown_seconds)
        AND made < request.at_most::bigint
    THEN
        IF action_row.number = 1 THEN
            INSERT INTO mailroom.adopted_tokens (account, action, created_at)
                VALUES (candidate, 'activation', epoch);
        ELSIF action_row.number = 2 THEN
            INSERT INTO mailroom.adopted_tokens (account, action, created_at)
                VALUES (candidate, 'password_recovery', epoch);
        -- An account that nobody can mail to is like none.
        ELSIF mailroom.is_address(present.email) THEN
            PERFORM mailroom.enqueue(
                action_row.name, present.email, present.name, present.subject_id, NULL::jsonb,
                (SELECT language::text FROM mailroom.adopted_accounts WHERE id = candidate),
                NULL::timestamptz, NULL::text, bound, NULL::text,
                NULL::text
            );
        END IF;
    END IF;

    PERFORM set_config('mailroom.binding', coalesce(outer_binding, ''::text), true);
    IF request.traceparent IS NOT NULL THEN
        PERFORM set_config('mailroom.traceparent', coalesce(outer_traceparent, ''::text), true);
    END IF;

    -- A commit that has nothing to write returns at once, and one that has waits for the disk: the
    -- greatest difference of all. This writes some bytes to the log in any case, and nowhere else.
    PERFORM pg_catalog.pg_logical_emit_message(true, 'mailroom', ''::text);
END;
$$;

COMMENT ON FUNCTION mailroom.request(text, text, interval, integer, interval, bytea, text) IS
    'Makes a token for the account with this email or, if there is none, this login, if the '
    'account is eligible for the action, got none of this action for the time of cooldown, and '
    'fewer than at_most within per. Answers nothing and takes the same steps whether it did or '
    'not. binding names the browser that asks, as in issued_tokens; the last of at_most, of an '
    'action with a code, is for any. traceparent names the trace, as enqueue() takes it.';

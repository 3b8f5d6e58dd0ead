-- A link that was mailed asks for its successor, without anybody who types or sees an address.

-- Whoever has the link of an abandoned mailbox must not reach an account by it whose address has
-- changed since. So the mail goes to the address of the old one alone, and only while the subject
-- has that address: an action without a function of eligibility, which tells the present one, has
-- no renewals. Nor has a mail with a payload, which is deleted once it was sent.
--
-- It answers nothing, whatever it was given, and never waits: of calls at the same time one makes
-- the successor, and the others find the row locked.
CREATE FUNCTION mailroom.renew_link(secret bytea, action text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    wanted mailroom.actions%ROWTYPE;
    old mailroom.issued_tokens%ROWTYPE;
    present record;
    address text;
    epoch bigint;
    resting bigint;
    newest bigint;
    made bigint;
    is_adopted boolean := false;
    is_free boolean := true;
    outer_binding text := current_setting('mailroom.binding', true);
BEGIN
    -- In the others a later token or a change of the address may not be seen.
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'mailroom.renew_link() does not work in % transactions',
            current_setting('transaction_isolation')
            USING ERRCODE = 'invalid_transaction_state',
                HINT = 'Call it in a transaction with the isolation level READ COMMITTED.';
    END IF;

    SELECT * INTO wanted FROM mailroom.actions
    WHERE name = renew_link.action AND path IS NOT NULL AND NOT is_retired;

    -- Which addresses are still their subjects' nobody can say then. A page that answers "if it can
    -- be sent, it is on its way" would never send any, and its operator not hear of it. It is so
    -- for every secret, so that this tells nothing of one.
    IF FOUND AND wanted.eligibility IS NULL THEN
        RAISE EXCEPTION 'mailroom.renew_link() needs a predicate of the action %', wanted.name
            USING ERRCODE = 'object_not_in_prerequisite_state',
                HINT = 'It says which address a subject has now. Set mailroom.actions.eligibility.';
    END IF;

    -- An account's token refers to its row, which somebody else may have locked to delete it:
    -- first, as request() does it, and without waiting.
    IF wanted.number <= 2 AND to_regclass('mailroom.adopted_accounts') IS NOT NULL THEN
        PERFORM FROM mailroom.adopted_accounts AS accounts
        WHERE id = (
            SELECT CASE WHEN tokens.subject_id ~ '^(0|[1-9][0-9]{0,17})$'
                THEN tokens.subject_id::bigint END
            FROM mailroom.issued_tokens AS tokens
            WHERE consumed_id = CASE WHEN octet_length(renew_link.secret) = 32
                THEN mailroom.consumed_id(renew_link.secret) END
        )
        FOR KEY SHARE SKIP LOCKED;
        is_free := FOUND;
    END IF;

    SELECT * INTO old FROM mailroom.issued_tokens AS tokens
    WHERE consumed_id = CASE WHEN octet_length(renew_link.secret) = 32
        THEN mailroom.consumed_id(renew_link.secret) END
        AND tokens.action = wanted.number
    FOR NO KEY UPDATE SKIP LOCKED;

    -- As it is now. What fails for this subject tells nobody, either.
    IF wanted.eligibility IS NOT NULL THEN
        SELECT answer.email, answer.name INTO present
        FROM mailroom.ask_eligibility(wanted.eligibility, ARRAY[coalesce(old.subject_id, '')])
            AS answer
        WHERE answer.fault IS NULL AND answer.subject_id = old.subject_id COLLATE "C";
    ELSE
        SELECT NULL::text AS email, NULL::text AS name INTO present;
    END IF;

    -- Until then the tokens that this counts are not pruned.
    PERFORM setval('mailroom.longest_limit', 3600)
    FROM mailroom.longest_limit AS longest
    WHERE longest.last_value < 3600;

    epoch := floor(extract(epoch FROM mailroom.clock()));
    address := mailroom.normal_address(old.recipient_email);

    SELECT rests_until INTO resting FROM mailroom.code_failures
    WHERE subject = old.subject_id AND NOT is_other_browser;

    SELECT max(id), count(*) FILTER (WHERE created_at > epoch - 3600) INTO newest, made
    FROM mailroom.issued_tokens AS tokens
    WHERE subject_id = old.subject_id AND tokens.action = wanted.number;

    IF is_free
        AND old.cancelled_at IS NULL
        AND NOT old.has_payload
        AND old.id = newest
        -- As clocks may have been set back, a time ahead of this one counts as now.
        AND least(old.created_at, epoch) <= epoch - extract(epoch FROM wanted.cooldown)
        AND made < 5
        AND (resting > epoch) IS NOT TRUE
        AND (present.email = old.recipient_email COLLATE "C"
            OR mailroom.normal_address(present.email) = address)
        AND mailroom.is_address(old.recipient_email)
        AND NOT EXISTS (
            SELECT FROM mailroom.suppressions AS suppression WHERE suppression.address = address
        )
    THEN
        -- Of an account of Mailroom's own another row makes the token.
        IF wanted.number <= 2 AND to_regclass('mailroom.adopted_tokens') IS NOT NULL THEN
            PERFORM set_config('mailroom.binding', coalesce(encode(old.binding, 'hex'), ''), true);
            INSERT INTO mailroom.adopted_tokens (account, action, created_at)
            SELECT tokens.account, tokens.action, epoch
            FROM mailroom.adopted_tokens AS tokens
            WHERE id = old.id;
            is_adopted := FOUND;
            PERFORM set_config('mailroom.binding', coalesce(outer_binding, ''), true);
        END IF;

        IF NOT is_adopted THEN
            PERFORM mailroom.enqueue(
                wanted.name, old.recipient_email, old.recipient_name, old.subject_id,
                language => old.language, binding => old.binding,
                notice_recipient => old.notice_recipient
            );
        END IF;
    END IF;

    -- As request() does: a commit that has something to write takes longer than one that has not.
    PERFORM pg_catalog.pg_logical_emit_message(true, 'mailroom', '');
END;
$$;

COMMENT ON FUNCTION mailroom.renew_link(bytea, text) IS
    'Mails a new link in place of the one with this secret, used, expired or locked as that may '
    'be: for the same subject, address, language and browser. Only if that is its subject''s '
    'newest of the action, was not cancelled and had no payload, the subject is eligible with the '
    'same address, which is not suppressed, the action''s cooldown is over, there were fewer than '
    'five within an hour, and no wrong codes have the subject rest. Answers nothing, whether it '
    'did or not.';

-- Mails that say what has happened: that a token was used, that an address was changed, or that
-- many wrong codes were typed. They are made in the transaction in which it happens.

-- Never fails where a mail could not be sent, since what it tells of must not depend on it. One
-- that this transaction has made already is not made again: where an account's address is changed
-- with a token, both the token and the account tell of it. Its payload is there as long as nobody
-- can have claimed it, and rows of a part of the transaction that can be rolled back alone are
-- younger than the transaction.
CREATE FUNCTION mailroom.notify(
    action text,
    recipient_email text,
    recipient_name text,
    subject_id text,
    language text,
    about text
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    wanted mailroom.actions%ROWTYPE;
    said jsonb := jsonb_build_object('about', notify.about);
    address text := mailroom.normal_address(notify.recipient_email);
BEGIN
    SELECT * INTO wanted FROM mailroom.actions
    WHERE name = notify.action AND path IS NULL AND NOT is_retired;

    IF wanted.number IS NULL
        OR address IS NULL
        OR mailroom.is_address(notify.recipient_email) IS NOT TRUE
        OR notify.subject_id IS NULL AND wanted.eligibility IS NOT NULL
        OR EXISTS (
            SELECT
            FROM mailroom.issued_tokens AS tokens
            JOIN mailroom.payloads ON token = id
            WHERE tokens.subject_id = notify.subject_id
                AND tokens.action = wanted.number
                AND age(tokens.xmin) <= 0
                AND payload = said
                AND mailroom.normal_address(tokens.recipient_email) = address
        )
    THEN
        RETURN;
    END IF;

    PERFORM mailroom.enqueue(
        wanted.name, notify.recipient_email, notify.recipient_name, notify.subject_id, said,
        notify.language, NULL::timestamptz, NULL::text, NULL::bytea, NULL::text,
        NULL::text
    );
END;
$$;

COMMENT ON FUNCTION mailroom.notify(text, text, text, text, text, text) IS
    'Queues a notice in this transaction, unless it has made the same one already, or there is no '
    'such action or address.';

CREATE FUNCTION mailroom.notify_of_use(
    used mailroom.issued_tokens, wanted mailroom.actions, present_email text
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- A token that proves no address was mailed to one that may not be its subject's yet.
    IF wanted.notice IS NOT NULL AND (used.notice_recipient IS NOT NULL OR wanted.proves_address)
    THEN
        PERFORM mailroom.notify(
            wanted.notice,
            coalesce(used.notice_recipient, used.recipient_email, present_email),
            used.recipient_name,
            used.subject_id,
            used.language,
            CASE wanted.name
                WHEN 'recover' THEN 'recovered'
                WHEN 'change_email' THEN 'email_changed'
                ELSE wanted.name
            END
        );
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.notify_of_use(mailroom.issued_tokens, mailroom.actions, text) IS
    'Queues the notice that a token was used, if its action has one.';

-- The time is kept in one row of the subject, which is locked after that of the other browsers.
CREATE FUNCTION mailroom.notify_of_codes(
    tried mailroom.issued_tokens, for_subject text, epoch bigint
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    named text := (SELECT code_notice FROM mailroom.actions WHERE number = tried.action);
BEGIN
    IF named IS NULL THEN
        RETURN;
    END IF;

    INSERT INTO mailroom.code_failures AS counted (subject, failures, rests_until, noticed_at)
    VALUES (for_subject, 0, epoch, epoch)
    ON CONFLICT ON CONSTRAINT code_failures_pkey DO UPDATE SET noticed_at = excluded.noticed_at
        WHERE (counted.noticed_at > epoch - 86400) IS NOT TRUE;

    IF FOUND THEN
        PERFORM mailroom.notify(
            named, coalesce(tried.notice_recipient, tried.recipient_email), tried.recipient_name,
            tried.subject_id, tried.language, 'wrong_codes'
        );
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.notify_of_codes(mailroom.issued_tokens, text, bigint) IS
    'Queues the notice of wrong codes, if the action of the token has one and the subject got none '
    'within a day.';

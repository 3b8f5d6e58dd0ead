-- Tokens that are used, by mailroom.redeem() or by an application's own UPDATE, or deleted.

-- Applications of the base schema use a token by their own UPDATE, and take a row that was not
-- updated for one that is not valid.
CREATE FUNCTION mailroom.trg_before_token_consumed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
BEGIN
    IF EXISTS (
        SELECT
        FROM mailroom.issued_tokens AS tokens
        LEFT JOIN mailroom.adopted_accounts AS accounts ON accounts.id = OLD.account
        WHERE tokens.id = OLD.id
            AND (
                tokens.cancelled_at IS NOT NULL
                OR (
                    tokens.recipient_email <> accounts.email::text COLLATE "C"
                    AND mailroom.normal_address(tokens.recipient_email) IS DISTINCT
                        FROM mailroom.normal_address(accounts.email::text)
                )
                -- Only redeem(), which has set this already,
                -- knows whether the browser is the right one.
                OR (tokens.binding IS NOT NULL AND tokens.consumed_at IS NULL)
            )
    ) THEN
        RETURN NULL;
    END IF;

    RETURN NEW;
END;
$$;

COMMENT ON FUNCTION mailroom.trg_before_token_consumed() IS
    'Keeps a token unused that was cancelled, or sent to another address than its account has, or '
    'bound to a browser and not redeemed.';

CREATE FUNCTION mailroom.trg_after_token_consumed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    used mailroom.issued_tokens%ROWTYPE;
    wanted mailroom.actions%ROWTYPE;
BEGIN
    UPDATE mailroom.issued_tokens AS tokens SET consumed_at = NEW.consumed_at WHERE id = NEW.id
        AND consumed_at IS NULL
    RETURNING tokens.* INTO used;

    -- Not where it was redeemed, which does the same.
    IF FOUND THEN
        SELECT * INTO wanted FROM mailroom.actions WHERE number = used.action;
        PERFORM mailroom.withdraw(ARRAY[NEW.id], 'it was used');
        PERFORM mailroom.end_others(
            used, wanted, mailroom.lock_links(used.subject_id, used.id),
            floor(extract(epoch FROM mailroom.clock()))::bigint
        );

        IF wanted.notice IS NOT NULL THEN
            PERFORM mailroom.notify_of_use(used, wanted, NULL::text);
        END IF;
    END IF;

    IF NEW.action::text = 'activation' THEN
        UPDATE mailroom.adopted_accounts SET status = 'active' WHERE id = NEW.account
            AND status::text = 'provisioned';
    END IF;

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION mailroom.trg_after_token_consumed() IS
    'Takes a token that was used out of the queue, and activates a provisioned account whose '
    'activation token it was.';

CREATE FUNCTION mailroom.trg_after_token_redeemed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
BEGIN
    UPDATE mailroom.adopted_tokens SET consumed_at = NEW.consumed_at WHERE id = NEW.id
        AND consumed_at IS NULL;

    IF NOT FOUND AND NEW.action = 1 AND NEW.subject_id ~ '^(0|[1-9][0-9]{0,17})$' THEN
        UPDATE mailroom.adopted_accounts SET status = 'active'
        WHERE id = NEW.subject_id::bigint AND status::text = 'provisioned'
            AND email::text = NEW.recipient_email COLLATE "C";
    END IF;

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION mailroom.trg_after_token_redeemed() IS
    'Sets consumed_at of an account''s token that was redeemed, and activates a provisioned '
    'account whose activation token has no row there.';

CREATE FUNCTION mailroom.trg_after_tokens_delete() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    ids bigint[] := ARRAY(SELECT id FROM gone);
BEGIN
    -- In the order in which whoever locks tokens does so. Those of an account that is deleted are
    -- locked already, with its others.
    PERFORM FROM mailroom.issued_tokens AS tokens
    WHERE id = ANY (ids)
    ORDER BY id + 0
    FOR UPDATE;

    PERFORM mailroom.withdraw(ids, 'it was deleted');
    DELETE FROM mailroom.issued_tokens AS tokens WHERE id = ANY (ids);
    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION mailroom.trg_after_tokens_delete() IS
    'Takes tokens of accounts that were deleted out of the queue.';

-- TRUNCATE deletes no rows one by one, and may begin to number tokens at 1 again: what the queue
-- and the log say of the old ones must not be taken for the new ones.
CREATE FUNCTION mailroom.trg_after_tokens_truncate() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ids bigint[] := ARRAY(SELECT id FROM mailroom.issued_tokens AS tokens WHERE action IN (1, 2));
    sequence regclass := pg_get_serial_sequence(TG_RELID::regclass::text, 'id');
    newest bigint := (SELECT max(id) FROM mailroom.issued_tokens AS tokens);
BEGIN
    IF newest IS NOT NULL THEN
        PERFORM setval(sequence, greatest(newest, nextval(sequence)));
    END IF;

    PERFORM mailroom.withdraw(ids, NULL);
    DELETE FROM mailroom.dead_letters WHERE token = ANY (ids);
    DELETE FROM mailroom.handed_over WHERE token = ANY (ids);
    DELETE FROM mailroom.issued_tokens AS tokens WHERE id = ANY (ids);

    -- Accounts may be numbered at 1 again.
    IF NOT EXISTS (SELECT FROM mailroom.adopted_accounts) THEN
        DELETE FROM mailroom.code_failures WHERE translate(subject, '0123456789', '') = '';
    END IF;

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION mailroom.trg_after_tokens_truncate() IS
    'Takes the tokens of accounts out of the queue with their table. Ids go on where they were.';

-- Goes back to the cursor, which stands before the first token that still waits or is on its way. Tokens after it that were
-- sent already go out again, if they can still be used; a notice says how many. What was given up does, too. The cursor finds
-- parked tokens by itself.
--
-- Locks: nobody reads or writes tokens while the queue is emptied, milliseconds unless very many tokens wait.

BEGIN;

LOCK TABLE jobs IN SHARE ROW EXCLUSIVE MODE;
LOCK TABLE tokens IN ACCESS EXCLUSIVE MODE;

-- Collectors cannot claim or settle any more, and what they have not settled is sent again.
LOCK TABLE pending, leases IN ACCESS EXCLUSIVE MODE;

DO $$
DECLARE
    epoch bigint := floor(extract(epoch FROM clock_timestamp()));
    first_owed bigint;
    again bigint;
BEGIN
    SELECT min(id) INTO first_owed
    FROM tokens
    JOIN (SELECT token FROM pending UNION ALL SELECT unnest(leases.tokens) FROM leases) AS queued ON queued.token = tokens.id
    WHERE consumed_at IS NULL AND expires_at > epoch;

    UPDATE jobs SET last_seq = coalesce(first_owed - 1, (SELECT max(id) FROM tokens), 0);

    SELECT count(*) INTO again
    FROM tokens
    WHERE id >= first_owed
        AND consumed_at IS NULL
        AND expires_at > epoch
        AND NOT EXISTS (SELECT FROM pending WHERE token = id AND attempts = 0)
        AND NOT EXISTS (SELECT FROM parked WHERE token = id AND attempts = 0);

    RAISE NOTICE '% tokens may be sent again', again;
END;
$$;

DELETE FROM pending;
DELETE FROM parked;
DELETE FROM leases;
DELETE FROM dead;

DROP TRIGGER after_tokens_truncated ON tokens;
DROP FUNCTION trg_after_tokens_truncated();
DROP TRIGGER after_pending_inserted ON pending;
DROP FUNCTION trg_after_pending_inserted();

COMMENT ON COLUMN jobs.last_seq IS 'Id of the last token that was handed over; 0 before the first.';

-- Made anew, because rights that were revoked and granted again are recorded otherwise than those never touched.
DROP TRIGGER after_token_inserted ON tokens;
DROP FUNCTION trg_after_token_inserted();

CREATE FUNCTION trg_after_token_inserted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    -- Without a payload equal notifications of one transaction are merged into one.
    NOTIFY token_insert;

    RETURN NULL;
END;
$$;

DO $$
DECLARE
    home name := (
        SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE pg_class.oid = 'tokens'::regclass
    );
BEGIN
    EXECUTE format('ALTER FUNCTION trg_after_token_inserted() SET search_path = pg_catalog, %I, pg_temp', home);
END;
$$;

COMMENT ON FUNCTION trg_after_token_inserted() IS
    'Notifies token_insert, with an empty payload so that a transaction sends one notification.';

CREATE TRIGGER after_token_inserted
    AFTER INSERT ON tokens
    FOR EACH ROW
    EXECUTE FUNCTION trg_after_token_inserted();

COMMIT;

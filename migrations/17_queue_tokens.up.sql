-- Faults: a token whose transaction committed after one with a higher id was passed by the cursor and never sent; one
-- collector could work at a time; and every insert of a token sent a notification, for which transactions commit one after
-- the other in the whole server.
--
-- From here on every token is queued by the transaction that inserts it, and a notification is sent only while a collector
-- sleeps. What the cursor still owes is taken over:
-- - every token after it, whatever its state, so that each gets its entry in the log;
-- - of the tokens before it those that can still be used and whose account has not the right status, or got it so late that
--   the cursor may have passed them before: those are sent, perhaps for the second time.
-- The cursor goes to the end of all ids, where collectors that know nothing of the queue find nothing to send; `mailroom` refuses
-- to collect by it.
--
-- Locks: nobody writes to tokens while it is read once, 1 s with two million tokens, and 8 s for each million
-- that is still to be sent. Collectors that move the cursor wait meanwhile.

BEGIN;

LOCK TABLE jobs IN SHARE ROW EXCLUSIVE MODE;

-- Waits for every transaction that has inserted a token, so that the one statement below sees them all.
LOCK TABLE tokens IN SHARE ROW EXCLUSIVE MODE;

CREATE OR REPLACE FUNCTION trg_after_token_inserted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO pending (token, due_at, priority)
    VALUES (NEW.id, mailroom_clock(), delivery_priority(NEW.action))
    ON CONFLICT DO NOTHING;

    RETURN NULL;
END;
$$;

-- After each insert, so also for what comes back. A collector that goes to sleep holds this lock exclusively; while it holds
-- it, or waits for it, nobody gets it shared. Whoever gets it shared keeps it until the transaction ends: a collector that
-- goes to sleep afterwards sees the row. So nobody pays for a notification while all collectors are awake; transactions
-- that send one commit one after the other in the whole server.
CREATE FUNCTION trg_after_pending_inserted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    -- The oid tells the schemas of one database apart.
    IF NOT pg_try_advisory_xact_lock_shared(1835100524, TG_RELID::integer) THEN
        PERFORM pg_catalog.pg_notify('token_insert'::text, ''::text);
    END IF;

    RETURN NULL;
END;
$$;

-- TRUNCATE deletes no rows one by one, and may begin to number tokens at 1 again: what the queue and the log said of the old ones
-- must not be taken for the new ones.
CREATE FUNCTION trg_after_tokens_truncated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    -- Not TRUNCATE, which fails where the same statement truncates one of these, too.
    -- In the order in which rows move: what a statement has waited for is seen by those after it.
    DELETE FROM leases;
    DELETE FROM parked;
    DELETE FROM dead;
    DELETE FROM pending;
    DELETE FROM handovers;

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
    EXECUTE format('ALTER FUNCTION trg_after_tokens_truncated() SET search_path = pg_catalog, %I, pg_temp', home);
    ALTER FUNCTION trg_after_pending_inserted() SET search_path = pg_catalog, pg_temp;
END;
$$;

-- They run with their owner's rights: nobody else may put them on a table of his own.
REVOKE ALL ON FUNCTION trg_after_token_inserted() FROM PUBLIC;
REVOKE ALL ON FUNCTION trg_after_pending_inserted() FROM PUBLIC;
REVOKE ALL ON FUNCTION trg_after_tokens_truncated() FROM PUBLIC;

COMMENT ON FUNCTION trg_after_token_inserted() IS 'Queues a new token in the same transaction.';
COMMENT ON FUNCTION trg_after_pending_inserted() IS 'Notifies token_insert if a collector sleeps.';
COMMENT ON FUNCTION trg_after_tokens_truncated() IS 'Empties the queue and its log with the table of tokens.';

CREATE TRIGGER after_tokens_truncated
    AFTER TRUNCATE ON tokens
    FOR EACH STATEMENT
    EXECUTE FUNCTION trg_after_tokens_truncated();

WITH
cursors AS (
    SELECT coalesce(min(coalesce(last_seq, 0)), 0) AS last_seq FROM jobs
),
-- The last token that the cursor has passed. What it has been told of accounts is no older than that one, but for the
-- longest time between two looks of a collector, 270 s, and for transactions that take a minute.
witness AS (
    SELECT created_at FROM tokens WHERE id <= (SELECT last_seq FROM cursors) ORDER BY id DESC LIMIT 1
),
owed AS (
    SELECT id, action, account, expires_at, false AS is_parked FROM tokens WHERE id > (SELECT last_seq FROM cursors)
    UNION ALL
    SELECT usable.id, usable.action, usable.account, usable.expires_at, account.has_wrong_status
    FROM tokens AS usable
    CROSS JOIN LATERAL (
        SELECT
            accounts.status::text IS DISTINCT FROM status_needed_by(usable.action)::text AS has_wrong_status,
            accounts.status_changed_at
        FROM accounts
        WHERE accounts.id = usable.account
    ) AS account
    WHERE usable.id <= (SELECT last_seq FROM cursors)
        AND usable.consumed_at IS NULL
        AND usable.expires_at > extract(epoch FROM clock_timestamp())
        AND (
            account.has_wrong_status
            OR (
                account.status_changed_at >= usable.created_at - 60
                AND account.status_changed_at >= (SELECT created_at FROM witness) - 330
            )
        )
),
parking AS (
    INSERT INTO parked (token, account, parked_at, expires_at, attempts, failures, priority)
    SELECT id, account, clock_timestamp(), expires_at, 0, 0, delivery_priority(action) FROM owed WHERE is_parked
    ON CONFLICT DO NOTHING
)
INSERT INTO pending (token, due_at, priority)
SELECT id, clock_timestamp(), delivery_priority(action)
FROM (SELECT * FROM owed WHERE NOT is_parked ORDER BY id) AS in_order
ON CONFLICT DO NOTHING;

-- Only now: no collector of this queue sleeps yet.
CREATE TRIGGER after_pending_inserted
    AFTER INSERT ON pending
    FOR EACH ROW
    EXECUTE FUNCTION trg_after_pending_inserted();

UPDATE jobs SET last_seq = 9223372036854775807;

COMMENT ON COLUMN jobs.last_seq IS
    'Id up to which tokens were read by a cursor; the greatest number since tokens are queued in pending.';

COMMIT;

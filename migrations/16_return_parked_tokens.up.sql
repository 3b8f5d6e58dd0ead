-- Feature: tokens that are parked because their account has not the right status wait for their mail again in the moment in
-- which it has.
--
-- Locks: nobody writes to accounts for some milliseconds, however large it is; others read.

BEGIN;

-- Runs with the rights of its owner, because whoever changes a status needs none on the queue. A claim that parks a token
-- holds its account's row until it has committed, so that this statement, which began after the row was changed, sees the
-- parked token.
CREATE FUNCTION trg_after_account_status_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    WITH gone AS (
        DELETE FROM parked
        USING tokens
        WHERE parked.account = NEW.id
            AND tokens.id = parked.token
            AND status_needed_by(tokens.action)::text = NEW.status::text
        RETURNING parked.*
    )
    INSERT INTO pending (token, due_at, attempts, failures, priority)
    SELECT token, mailroom_clock(), attempts, failures, priority FROM gone
    ON CONFLICT DO NOTHING;

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
    EXECUTE format('ALTER FUNCTION trg_after_account_status_change() SET search_path = pg_catalog, %I, pg_temp', home);
END;
$$;

REVOKE ALL ON FUNCTION trg_after_account_status_change() FROM PUBLIC;

COMMENT ON FUNCTION trg_after_account_status_change() IS
    'Puts the tokens back into the queue that were parked until their account has this status.';

CREATE TRIGGER after_account_status_change
    AFTER UPDATE OF status ON accounts
    FOR EACH ROW
    WHEN (NEW.status::text IS DISTINCT FROM OLD.status::text)
    EXECUTE FUNCTION trg_after_account_status_change();

COMMIT;

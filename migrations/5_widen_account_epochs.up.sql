-- Fault: integer seconds end on 2038-01-19 at 03:14:07 UTC; from then on no account could be inserted, activated
-- or suspended. Apart from the tokens' migration, so that neither ever holds one table and waits for the other:
-- registrations lock accounts before tokens, consumers of tokens the other way round.
--
-- Locks, with two million accounts: rewrites accounts with its indexes, and nobody reads or writes it for about 12 s.
-- Needs as much free disk again as the table and its indexes take, 580 MB, and writes as much to the log.

BEGIN;

ALTER TABLE accounts
    ALTER COLUMN created_at TYPE bigint,
    ALTER COLUMN status_changed_at TYPE bigint,
    ALTER COLUMN activated_at TYPE bigint,
    ALTER COLUMN suspended_at TYPE bigint,
    ALTER COLUMN unsuspended_at TYPE bigint;

CREATE OR REPLACE FUNCTION trg_before_account_status_change() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    changed_at bigint := extract(epoch FROM now());
BEGIN
    IF NEW.status = OLD.status THEN
        RETURN NEW;
    END IF;

    NEW.status_changed_at := changed_at;

    IF NEW.status = 'suspended' THEN
        NEW.suspended_at := changed_at;
        NEW.unsuspended_at := NULL;
    ELSIF OLD.status = 'suspended' THEN
        NEW.unsuspended_at := changed_at;
        NEW.suspended_at := NULL;
        -- Lifting a suspension must not activate an account whose address was never confirmed.
        IF OLD.activated_at IS NULL THEN
            NEW.status := 'provisioned';
        END IF;
    ELSIF NEW.status = 'active' AND OLD.activated_at IS NULL THEN
        NEW.activated_at := changed_at;
    END IF;

    RETURN NEW;
END;
$$;

-- A changed column loses its statistics, and autovacuum does not notice a rewrite.
ANALYZE accounts (created_at, status_changed_at, activated_at, suspended_at, unsuspended_at);

COMMIT;

-- Times after 2038-01-19 03:14:07 UTC cannot be restored: with one of them in the table this stops and changes
-- nothing. Locks as on the way up.

BEGIN;

DO $$
DECLARE
    too_late bigint;
BEGIN
    SELECT count(*) INTO too_late
    FROM accounts
    WHERE greatest(created_at, status_changed_at, activated_at, suspended_at, unsuspended_at) > 2147483647
        OR least(created_at, status_changed_at, activated_at, suspended_at, unsuspended_at) < -2147483648;

    IF too_late > 0 THEN
        RAISE EXCEPTION 'accounts with a time outside of what the former integer columns can hold: %', too_late
            USING ERRCODE = 'numeric_value_out_of_range',
                HINT = 'Integer seconds end on 2038-01-19 at 03:14:07 UTC. Give these accounts earlier times, and'
                    ' migrate again.';
    END IF;
END;
$$;

ALTER TABLE accounts
    ALTER COLUMN created_at TYPE integer,
    ALTER COLUMN status_changed_at TYPE integer,
    ALTER COLUMN activated_at TYPE integer,
    ALTER COLUMN suspended_at TYPE integer,
    ALTER COLUMN unsuspended_at TYPE integer;

CREATE OR REPLACE FUNCTION trg_before_account_status_change() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    changed_at integer := extract(epoch FROM now());
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

ANALYZE accounts (created_at, status_changed_at, activated_at, suspended_at, unsuspended_at);

COMMIT;

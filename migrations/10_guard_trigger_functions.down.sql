-- Triggers compare enums by the best operator on the search path again. Whoever registers somebody
-- needs the right to insert tokens again: grant it before, or registrations fail: INSERT on tokens,
-- and USAGE on the sequence tokens_id_seq.
--
-- Locks: nobody reads or writes accounts for some milliseconds, however large it is.

BEGIN;

-- Ends an autovacuum, for which others would have to wait together with the locks below.
LOCK TABLE accounts IN SHARE UPDATE EXCLUSIVE MODE;

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

CREATE OR REPLACE FUNCTION trg_after_token_consumed() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.action = 'activation' THEN
        UPDATE accounts SET status = 'active' WHERE id = NEW.account AND status = 'provisioned';
    END IF;

    RETURN NULL;
END;
$$;

-- Made anew, because rights that were revoked and granted again are recorded otherwise
-- than those never touched.
DROP TRIGGER after_account_insert ON accounts;
DROP FUNCTION trg_after_account_insert();

CREATE FUNCTION trg_after_account_insert() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tokens (account, action) VALUES (NEW.id, 'activation');

    RETURN NULL;
END;
$$;

-- Replacing a function forgets its search path.
DO $$
DECLARE
    home name := (
        SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE pg_class.oid = 'tokens'::regclass
    );
    trigger_function text;
BEGIN
    FOREACH trigger_function IN ARRAY ARRAY[
        'trg_before_account_status_change', 'trg_after_token_consumed', 'trg_after_account_insert'
    ] LOOP
        EXECUTE format(
            'ALTER FUNCTION %I() SET search_path = pg_catalog, %I, pg_temp', trigger_function, home
        );
    END LOOP;
END;
$$;

COMMENT ON FUNCTION trg_after_account_insert() IS
    'Gives a provisioned account its activation token, in the same transaction.';

CREATE TRIGGER after_account_insert
    AFTER INSERT ON accounts
    FOR EACH ROW
    WHEN (NEW.status = 'provisioned')
    EXECUTE FUNCTION trg_after_account_insert();

COMMIT;

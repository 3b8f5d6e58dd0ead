-- Faults: two ways to have a trigger function do what it should not.
--
-- Triggers compared enums by an operator for any enum, which PostgreSQL passes over for one of
-- exactly this enum further down the search path. Whoever may create objects in Mailroom's schema,
-- which in the schema public of a database from before PostgreSQL 15 is everybody, could define one
-- and have it executed with the rights of those who change rows. Text is compared by a built-in
-- operator that nothing can match better.
--
-- A registration inserted its token with the rights of whoever registered somebody. So every
-- application needed the right to insert tokens, and with it could make one for any account, with a
-- secret and a code of its own choice. The trigger inserts with the rights of its owner now, and an
-- application needs no right on tokens at all.
--
-- Locks: nobody writes to accounts for some milliseconds, however large it is; others read.

BEGIN;

-- Ends an autovacuum, for which others would have to wait together with the locks below.
LOCK TABLE accounts IN SHARE UPDATE EXCLUSIVE MODE;

CREATE OR REPLACE FUNCTION trg_before_account_status_change() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    changed_at bigint := extract(epoch FROM now());
BEGIN
    IF NEW.status::text = OLD.status::text THEN
        RETURN NEW;
    END IF;

    NEW.status_changed_at := changed_at;

    IF NEW.status::text = 'suspended' THEN
        NEW.suspended_at := changed_at;
        NEW.unsuspended_at := NULL;
    ELSIF OLD.status::text = 'suspended' THEN
        NEW.unsuspended_at := changed_at;
        NEW.suspended_at := NULL;
        -- Lifting a suspension must not activate an account whose address was never confirmed.
        IF OLD.activated_at IS NULL THEN
            NEW.status := 'provisioned';
        END IF;
    ELSIF NEW.status::text = 'active' AND OLD.activated_at IS NULL THEN
        NEW.activated_at := changed_at;
    END IF;

    RETURN NEW;
END;
$$;

CREATE OR REPLACE FUNCTION trg_after_token_consumed() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.action::text = 'activation' THEN
        UPDATE accounts SET status = 'active' WHERE id = NEW.account
            AND status::text = 'provisioned';
    END IF;

    RETURN NULL;
END;
$$;

CREATE OR REPLACE TRIGGER after_account_insert
    AFTER INSERT ON accounts
    FOR EACH ROW
    WHEN (NEW.status::text = 'provisioned')
    EXECUTE FUNCTION trg_after_account_insert();

-- Its body names no function or operator, only the table, which the search path finds.
CREATE OR REPLACE FUNCTION trg_after_account_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
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

-- A trigger asks for no right to its function when it fires, only when it is created: nobody else
-- may put this function on a table of his own, whose ids would be taken for accounts.
REVOKE ALL ON FUNCTION trg_after_account_insert() FROM PUBLIC;

COMMENT ON FUNCTION trg_after_account_insert() IS
    'Gives a provisioned account its activation token, in the same transaction and with the rights '
    'of this function''s owner.';

COMMIT;

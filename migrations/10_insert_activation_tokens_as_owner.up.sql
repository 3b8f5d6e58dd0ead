-- Fault: a registration inserted its token with the rights of whoever registered somebody. So every application needed
-- the right to insert tokens, and with it could make one for any account, with a secret and a code of its own choice. The
-- trigger inserts with the rights of its owner now, and an application needs no right on tokens at all.
--
-- Locks: no table; some milliseconds.

BEGIN;

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
BEGIN
    EXECUTE format('ALTER FUNCTION trg_after_account_insert() SET search_path = pg_catalog, %I, pg_temp', home);
END;
$$;

-- A trigger asks for no right to its function when it fires, only when it is created: nobody else may put this function
-- on a table of his own, whose ids would be taken for accounts.
REVOKE ALL ON FUNCTION trg_after_account_insert() FROM PUBLIC;

COMMENT ON FUNCTION trg_after_account_insert() IS
    'Gives a provisioned account its activation token, in the same transaction and with the rights of this function''s'
    ' owner.';

COMMIT;

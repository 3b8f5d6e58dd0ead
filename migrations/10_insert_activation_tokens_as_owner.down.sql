-- Whoever registers somebody needs the right to insert tokens again. Grant it before, or registrations fail:
-- INSERT on tokens, and USAGE on the sequence tokens_id_seq.
--
-- Locks: nobody reads or writes accounts for some milliseconds, however large it is.

BEGIN;

-- Made anew, because rights that were revoked and granted again are recorded otherwise than those never touched.
DROP TRIGGER after_account_insert ON accounts;
DROP FUNCTION trg_after_account_insert();

CREATE FUNCTION trg_after_account_insert() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tokens (account, action) VALUES (NEW.id, 'activation');

    RETURN NULL;
END;
$$;

DO $$
DECLARE
    home name := (
        SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE pg_class.oid = 'accounts'::regclass
    );
BEGIN
    EXECUTE format('ALTER FUNCTION trg_after_account_insert() SET search_path = pg_catalog, %I, pg_temp', home);
END;
$$;

COMMENT ON FUNCTION trg_after_account_insert() IS
    'Gives a provisioned account its activation token, in the same transaction.';

CREATE TRIGGER after_account_insert
    AFTER INSERT ON accounts
    FOR EACH ROW
    WHEN (NEW.status::text = 'provisioned')
    EXECUTE FUNCTION trg_after_account_insert();

COMMIT;

-- Faults: an account that was inserted as active had no time of activation, so that a suspension and its end made it provisioned, and
-- it got no recovery any more; and the tokens of an account stayed usable when its address changed.
--
-- Accounts that are active get the time of activation that they lack: when their status last changed or, if it never did, when they
-- were made. Of suspended ones nobody knows whether they were active before; where an installation knows, it sets
-- `activated_at` itself.
--
-- Locks: nobody writes to accounts while the times are filled in, 1 s for each 100,000 that lack one and 1 s for two million
-- that are read.

BEGIN;

CREATE FUNCTION trg_before_account_insert() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status::text = 'active' THEN
        NEW.activated_at := coalesce(NEW.activated_at, floor(extract(epoch FROM now()))::bigint);
    ELSE
        NEW.suspended_at := coalesce(NEW.suspended_at, floor(extract(epoch FROM now()))::bigint);
    END IF;

    RETURN NEW;
END;
$$;

-- With the rights of its owner, because whoever changes an address needs none on tokens. Like a redemption it locks the
-- account before its tokens.
CREATE FUNCTION trg_after_account_email_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    epoch bigint := floor(extract(epoch FROM clock_timestamp()));
BEGIN
    UPDATE tokens
    SET cancelled_at = epoch
    WHERE account = NEW.id AND consumed_at IS NULL AND cancelled_at IS NULL AND expires_at > epoch;

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
    ALTER FUNCTION trg_before_account_insert() SET search_path = pg_catalog, pg_temp;
    EXECUTE format('ALTER FUNCTION trg_after_account_email_change() SET search_path = pg_catalog, %I, pg_temp', home);
    ALTER FUNCTION trg_after_account_email_change() SET plan_cache_mode = force_generic_plan;
    ALTER FUNCTION trg_after_account_email_change() SET enable_seqscan = off;
END;
$$;

REVOKE ALL ON FUNCTION trg_after_account_email_change() FROM PUBLIC;

COMMENT ON FUNCTION trg_before_account_insert() IS
    'Records for an account that is inserted as active or suspended that it is so from now on, unless the row says when.';
COMMENT ON FUNCTION trg_after_account_email_change() IS
    'Cancels the tokens that were made for the account''s former address and can still be used.';

LOCK TABLE accounts IN SHARE ROW EXCLUSIVE MODE;

UPDATE accounts
SET activated_at = coalesce(status_changed_at, created_at)
WHERE status::text = 'active' AND activated_at IS NULL;

CREATE TRIGGER before_account_insert
    BEFORE INSERT ON accounts
    FOR EACH ROW
    WHEN (NEW.status::text <> 'provisioned')
    EXECUTE FUNCTION trg_before_account_insert();

-- Letters of another case are another address: only its mail server knows whether they reach the same person.
CREATE TRIGGER after_account_email_change
    AFTER UPDATE OF email ON accounts
    FOR EACH ROW
    WHEN (NEW.email::text COLLATE "C" IS DISTINCT FROM OLD.email::text)
    EXECUTE FUNCTION trg_after_account_email_change();

COMMIT;

-- Fault: an account that was inserted as active had no time of activation, so that a suspension and its end made it provisioned, and
-- it got no recovery any more.
--
-- Accounts that are active get the time of activation that they lack: when their status last changed or, if it never did, when they
-- were made. Of suspended ones nobody knows whether they were active before; where an installation knows, it sets
-- `activated_at` itself.
--
-- Locks: nobody writes to accounts while the times are filled in, 1 s for each 100,000 that lack one and 1 s for two million
-- that are read.

BEGIN;

CREATE FUNCTION mailroom.trg_before_account_insert() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.status::text = 'active' THEN
        NEW.activated_at := coalesce(NEW.activated_at, floor(extract(epoch FROM now()))::bigint);
    ELSE
        NEW.suspended_at := coalesce(NEW.suspended_at, floor(extract(epoch FROM now()))::bigint);
    END IF;

    RETURN NEW;
END;
$$;

REVOKE ALL ON FUNCTION mailroom.trg_before_account_insert() FROM PUBLIC;

COMMENT ON FUNCTION mailroom.trg_before_account_insert() IS
    'Records for an account that is inserted as active or suspended that it is so from now on, unless the row says when.';

LOCK TABLE accounts IN SHARE ROW EXCLUSIVE MODE;

UPDATE accounts
SET activated_at = coalesce(status_changed_at, created_at)
WHERE status::text = 'active' AND activated_at IS NULL;

CREATE TRIGGER before_account_insert
    BEFORE INSERT ON accounts
    FOR EACH ROW
    WHEN (NEW.status::text <> 'provisioned')
    EXECUTE FUNCTION mailroom.trg_before_account_insert();

COMMIT;

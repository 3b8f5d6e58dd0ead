-- INSERT ... ON CONFLICT DO NOTHING on accounts fails again.

BEGIN;

-- Ends an autovacuum, for which others would have to wait together with the locks below.
LOCK TABLE accounts IN SHARE UPDATE EXCLUSIVE MODE;

DROP TRIGGER after_account_insert ON accounts;
DROP FUNCTION trg_after_account_insert();

CREATE FUNCTION trg_before_account_insert() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status = 'provisioned' THEN
        INSERT INTO tokens (account, action) VALUES (NEW.id, 'activation');
    END IF;

    RETURN NEW;
END;
$$;

CREATE TRIGGER before_account_insert
    BEFORE INSERT ON accounts
    FOR EACH ROW
    EXECUTE FUNCTION trg_before_account_insert();

COMMIT;

-- Fault: the activation token was made before the account's row, so INSERT ... ON CONFLICT DO
-- NOTHING left a token without an account and failed at commit. The token is now made right after
-- the row, by the same statement and so in the same transaction:
-- if the token fails, so does the account.
--
-- Locks: nobody reads or writes accounts for some milliseconds, however large it is.

BEGIN;

-- Ends an autovacuum, for which others would have to wait together with the locks below.
LOCK TABLE accounts IN SHARE UPDATE EXCLUSIVE MODE;

DROP TRIGGER before_account_insert ON accounts;
DROP FUNCTION trg_before_account_insert();

CREATE FUNCTION trg_after_account_insert() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tokens (account, action) VALUES (NEW.id, 'activation');

    RETURN NULL;
END;
$$;

CREATE TRIGGER after_account_insert
    AFTER INSERT ON accounts
    FOR EACH ROW
    WHEN (NEW.status = 'provisioned')
    EXECUTE FUNCTION trg_after_account_insert();

COMMIT;

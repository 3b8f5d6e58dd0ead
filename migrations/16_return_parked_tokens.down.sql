-- Locks: nobody reads or writes accounts for some milliseconds, however large it is.

BEGIN;

DROP TRIGGER after_account_status_change ON accounts;
DROP FUNCTION trg_after_account_status_change();

COMMIT;

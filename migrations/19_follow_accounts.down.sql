-- Times of activation that were filled in stay.
--
-- Locks: nobody reads or writes accounts for some milliseconds, however large it is.

BEGIN;

DROP TRIGGER after_account_email_change ON accounts;
DROP FUNCTION trg_after_account_email_change();
DROP TRIGGER before_account_insert ON accounts;
DROP FUNCTION trg_before_account_insert();

COMMIT;

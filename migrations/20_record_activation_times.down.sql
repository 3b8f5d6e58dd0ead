-- Times of activation that were filled in stay.
--
-- Locks: nobody reads or writes accounts for some milliseconds, however large it is.

BEGIN;

DROP TRIGGER before_account_insert ON accounts;
DROP FUNCTION mailroom.trg_before_account_insert();

COMMIT;

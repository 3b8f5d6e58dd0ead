-- Whoever may update tokens can change any of their columns again.
--
-- Locks: nobody reads or writes tokens for some milliseconds, however large it is.

BEGIN;

-- Ends an autovacuum, for which others would have to wait together with the locks below.
LOCK TABLE tokens IN SHARE UPDATE EXCLUSIVE MODE;

DROP TRIGGER after_token_changed ON tokens;
DROP FUNCTION trg_after_token_changed();

COMMIT;

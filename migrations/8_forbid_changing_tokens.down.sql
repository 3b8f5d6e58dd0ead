-- Whoever may update tokens can change any of their columns again, and a link confirms the address that its account has by
-- then. Cancelled tokens are deleted.
--
-- Locks: nobody reads or writes tokens for the time of reading it once.

BEGIN;

DROP TRIGGER after_token_changed ON tokens;
DROP FUNCTION trg_after_token_changed();
DROP TRIGGER before_token_consumed ON tokens;
DROP FUNCTION trg_before_token_consumed();
DROP TRIGGER before_token_insert ON tokens;
DROP FUNCTION trg_before_token_insert();

-- Deleted, not used: using an activation activates.
DELETE FROM tokens WHERE cancelled_at IS NOT NULL;

ALTER TABLE tokens DROP COLUMN cancelled_at, DROP COLUMN recipient;

COMMIT;

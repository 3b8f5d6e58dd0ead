-- Fault: since tokens are queued nobody reads the index on expiry and use, 50 MB a million; and since it holds consumed_at, every
-- redemption wrote a new entry into every index of the table. Redemptions are updates within the page now.
--
-- Collectors of the queue `cursor` read it; there are none from migration 17 on.
--
-- Locks: nobody reads or writes tokens for some milliseconds, however large it is.

BEGIN;

DROP INDEX tokens_id_expires_consumed_action_idx;

-- Room for the new version of a row that is used; in pages that are written from now on.
ALTER TABLE tokens SET (fillfactor = 90);

COMMIT;

-- no-transaction
--
-- Fault: since tokens are queued nobody reads the index on expiry and use, 50 MB a million; and since it holds consumed_at, every
-- redemption wrote a new entry into every index of the table. Redemptions are updates within the page now.
--
-- Collectors of the queue `cursor` read it; there are none from migration 17 on.
--
-- Locks: nobody waits.

DROP INDEX CONCURRENTLY IF EXISTS tokens_id_expires_consumed_action_idx;

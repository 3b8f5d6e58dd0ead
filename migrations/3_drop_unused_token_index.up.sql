-- no-transaction
--
-- Fault: nobody needs the index on expiry and use, 50 MB a million: collectors read tokens by id,
-- which the primary key serves. Since it holds consumed_at, every redemption wrote a new entry into
-- every index of the table; and it would have to be built again for the columns that the next
-- migration replaces.
--
-- Locks: nobody waits.

DROP INDEX CONCURRENTLY IF EXISTS tokens_id_expires_consumed_action_idx;

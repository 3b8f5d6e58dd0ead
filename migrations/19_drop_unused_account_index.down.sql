-- no-transaction
--
-- Locks: nobody waits.

CREATE INDEX CONCURRENTLY IF NOT EXISTS accounts_id_status_idx ON accounts (id, status);

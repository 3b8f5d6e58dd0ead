-- no-transaction
--
-- Locks: nobody waits.

CREATE INDEX CONCURRENTLY IF NOT EXISTS tokens_id_expires_consumed_action_idx
    ON tokens (id, expires_at, consumed_at, action);

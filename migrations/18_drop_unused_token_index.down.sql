-- Locks: nobody writes to tokens while the index is built, 3 s with two million.

BEGIN;

ALTER TABLE tokens RESET (fillfactor);

CREATE INDEX tokens_id_expires_consumed_action_idx ON tokens (id, expires_at, consumed_at, action);

COMMENT ON INDEX tokens_id_expires_consumed_action_idx IS
    'Serves the collector: tokens after the cursor in order of id, judged by index alone.';

COMMIT;

-- Locks: nobody writes to accounts while the index is built, 2 s with two million.

BEGIN;

ALTER TABLE accounts RESET (fillfactor);

CREATE INDEX accounts_id_status_idx ON accounts (id, status);

COMMENT ON INDEX accounts_id_status_idx IS
    'Serves the collector: whether a token''s account has the status that its action needs, by index alone.';

COMMIT;

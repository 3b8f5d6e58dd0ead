-- Fault: integer seconds end on 2038-01-19 at 03:14:07 UTC; from then on no token could be inserted.
--
-- Locks, with two million tokens: rewrites tokens with its indexes, and nobody reads or writes it for about 10 s. Needs
-- as much free disk again as the table and its indexes take, 520 MB, and writes as much to the log.

BEGIN;

-- A trigger that names a column forbids changing its type.
DROP TRIGGER after_token_consumed ON tokens;

-- One statement, so that the table is rewritten once.
ALTER TABLE tokens
    ALTER COLUMN expires_at TYPE bigint,
    ALTER COLUMN consumed_at TYPE bigint,
    ALTER COLUMN created_at TYPE bigint;

CREATE TRIGGER after_token_consumed
    AFTER UPDATE OF consumed_at ON tokens
    FOR EACH ROW
    WHEN (OLD.consumed_at IS NULL AND NEW.consumed_at IS NOT NULL)
    EXECUTE FUNCTION trg_after_token_consumed();

-- A changed column loses its statistics, and autovacuum does not notice a rewrite.
ANALYZE tokens (expires_at, consumed_at, created_at);

COMMIT;

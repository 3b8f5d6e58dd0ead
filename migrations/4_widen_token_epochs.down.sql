-- Times after 2038-01-19 03:14:07 UTC cannot be restored: with one of them in the table this stops and changes
-- nothing. Locks as on the way up.

BEGIN;

DO $$
DECLARE
    too_late bigint;
BEGIN
    SELECT count(*) INTO too_late
    FROM tokens
    WHERE greatest(expires_at, consumed_at, created_at) > 2147483647
        OR least(expires_at, consumed_at, created_at) < -2147483648;

    IF too_late > 0 THEN
        RAISE EXCEPTION 'tokens with a time outside of what the former integer columns can hold: %', too_late
            USING ERRCODE = 'numeric_value_out_of_range',
                HINT = 'Integer seconds end on 2038-01-19 at 03:14:07 UTC. Delete these tokens or give them earlier'
                    ' times, and migrate again.';
    END IF;
END;
$$;

DROP TRIGGER after_token_consumed ON tokens;

ALTER TABLE tokens
    ALTER COLUMN expires_at TYPE integer,
    ALTER COLUMN consumed_at TYPE integer,
    ALTER COLUMN created_at TYPE integer;

CREATE TRIGGER after_token_consumed
    AFTER UPDATE OF consumed_at ON tokens
    FOR EACH ROW
    WHEN (OLD.consumed_at IS NULL AND NEW.consumed_at IS NOT NULL)
    EXECUTE FUNCTION trg_after_token_consumed();

ANALYZE tokens (expires_at, consumed_at, created_at);

COMMIT;

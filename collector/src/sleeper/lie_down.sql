-- True if this session has the lock from now on, false if another collector has it, null if writers have it. Whatever puts
-- a row into `pending` tries the same lock, shared, until its transaction ends.
SELECT
    CASE
        -- In this order: the second would succeed for the session that has the lock.
        WHEN pg_try_advisory_lock(key) THEN true
        -- As a writer does, and given back with the end of this statement.
        WHEN NOT pg_try_advisory_xact_lock_shared(key) THEN false
    END
FROM mailroom_sleep_key() AS key

-- True if this session has the lock from now on, false if another collector has it, null if writers have it or there is
-- nothing to write to. The trigger of `pending` tries the same lock, shared, until its transaction ends. The oid tells the
-- schemas of one database apart.
SELECT
    CASE
        -- In this order: the second would succeed for the session that has the lock.
        WHEN pg_try_advisory_lock(1835100524, pending) THEN true
        -- As a writer does, and given back with the end of this statement.
        WHEN NOT pg_try_advisory_xact_lock_shared(1835100524, pending) THEN false
    END
FROM (SELECT to_regclass('pending')::oid::integer AS pending) AS queue

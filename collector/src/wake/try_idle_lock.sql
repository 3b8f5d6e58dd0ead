-- True if this session has the lock from now on, false if another collector has it, null if writers
-- have it or there is nothing to write to. The trigger of the queue tries the same lock, shared,
-- until its transaction ends.
SELECT
    CASE
        -- In this order: the second would succeed for the session that has the lock.
        WHEN pg_try_advisory_lock(1835100524, queue) THEN true
        -- As a writer does, and given back with the end of this statement.
        WHEN NOT pg_try_advisory_xact_lock_shared(1835100524, queue) THEN false
    END
FROM (SELECT to_regclass('mailroom.queue')::oid::integer AS queue) AS locked

-- Who holds the advisory lock $1. Locks nothing.
SELECT
    locks.pid,
    -- Whether it is the session with process id $2 that began at $3.
    coalesce(locks.pid = $2::int AND activity.backend_start::text = $3::text, false)
FROM pg_locks AS locks
LEFT JOIN pg_stat_activity AS activity USING (pid)
WHERE locks.locktype = 'advisory'
    AND locks.granted
    AND locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    -- The two halves of the key; 1 is for keys of one bigint.
    AND locks.objsubid = 1
    AND (locks.classid::bigint << 32) | locks.objid::bigint = $1::bigint

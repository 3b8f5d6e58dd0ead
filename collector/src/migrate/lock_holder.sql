-- The process that holds a session's or a transaction's advisory lock with a key of 64 bits.
SELECT pid
FROM pg_locks
WHERE locktype = 'advisory'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid::bigint = $1::bigint >> 32
    AND objid::bigint = $1::bigint & 4294967295
    AND objsubid = 1
    AND granted
LIMIT 1

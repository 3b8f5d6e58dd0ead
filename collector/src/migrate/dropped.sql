-- What this transaction has dropped: it holds the lock, and the relation is gone. Other sessions
-- drop tables, too.
SELECT relation
FROM pg_locks
WHERE pid = pg_backend_pid()
    AND locktype = 'relation'
    AND mode = 'AccessExclusiveLock'
    AND relation NOT IN (SELECT oid FROM pg_class)

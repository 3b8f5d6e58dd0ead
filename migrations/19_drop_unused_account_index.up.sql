-- no-transaction
--
-- Fault: nobody reads the index on status: accounts are looked up by id. It kept changes of a
-- status from being updates within the page, and took 20 MB a million.
--
-- Locks: nobody waits.

DROP INDEX CONCURRENTLY IF EXISTS accounts_id_status_idx;

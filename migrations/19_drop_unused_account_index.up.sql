-- Fault: nobody reads the index on status: accounts are looked up by id. It kept changes of a status from being updates within
-- the page, and took 20 MB a million.
--
-- Locks: nobody reads or writes accounts for some milliseconds, however large it is.

BEGIN;

DROP INDEX accounts_id_status_idx;

ALTER TABLE accounts SET (fillfactor = 90);

COMMIT;

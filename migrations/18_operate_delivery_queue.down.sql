-- Locks: nobody writes to handovers for some milliseconds, however large it is.

BEGIN;

DROP FUNCTION mailroom_prune_tokens(timestamptz, bigint, integer);
DROP FUNCTION mailroom_prune_dead(timestamptz, integer);
DROP FUNCTION mailroom_prune(timestamptz, bigint, integer);
DROP FUNCTION mailroom_status();

ALTER FUNCTION mailroom_retry(bigint[]) SECURITY INVOKER;
ALTER FUNCTION mailroom_retry_all() SECURITY INVOKER;

DROP INDEX handovers_expired_idx;

COMMIT;

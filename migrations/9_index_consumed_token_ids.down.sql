-- Tokens are no longer found by their consumed ids.

BEGIN;

DROP INDEX tokens_consumed_id_key;
DROP FUNCTION mailroom_consumed_id(bytea);

COMMIT;

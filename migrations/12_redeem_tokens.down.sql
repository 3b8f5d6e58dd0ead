-- Consuming is the application's own UPDATE again.

BEGIN;

DROP FUNCTION mailroom_redeem(bytea, token_action, text);
DROP FUNCTION status_needed_by(token_action);
DROP TYPE redeem_verdict;

COMMIT;

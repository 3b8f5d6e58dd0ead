-- Consuming is the application's own UPDATE again. Forgets how many wrong codes were entered for an account.

BEGIN;

DROP FUNCTION mailroom_redeem(bytea, token_action, text);
DROP FUNCTION status_needed_by(token_action);
DROP TYPE redeem_verdict;
DROP TABLE code_failures;

COMMIT;

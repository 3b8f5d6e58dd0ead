-- Tokens that were asked for are inserted by the application itself again.

BEGIN;

DROP FUNCTION mailroom_request(text, token_action, interval, integer, interval);

COMMIT;

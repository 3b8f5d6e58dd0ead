-- Whoever may update tokens can change any of their columns again.

BEGIN;

DROP TRIGGER after_token_changed ON tokens;
DROP FUNCTION trg_after_token_changed();

COMMIT;

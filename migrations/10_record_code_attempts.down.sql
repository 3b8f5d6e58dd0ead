-- Forgets how often codes were tried: tokens that are valid now could be tried five times again after the way up.

BEGIN;

DROP TABLE code_attempts;

COMMIT;

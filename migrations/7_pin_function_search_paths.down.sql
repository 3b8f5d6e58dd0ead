-- Trigger functions follow the caller's search path again.

BEGIN;

ALTER FUNCTION trg_after_account_insert() RESET search_path;
ALTER FUNCTION trg_before_account_status_change() RESET search_path;
ALTER FUNCTION trg_after_token_consumed() RESET search_path;
ALTER FUNCTION trg_after_token_inserted() RESET search_path;

COMMIT;

-- Drops every account and token: nothing brings them back. The extension pgcrypto stays, because it
-- may have been there before and other tables may use it.

BEGIN;

DROP TABLE tokens, jobs, accounts;

DROP FUNCTION trg_after_token_inserted();
DROP FUNCTION trg_after_token_consumed();
DROP FUNCTION trg_before_account_status_change();
DROP FUNCTION trg_before_account_insert();

DROP TYPE job_type;
DROP TYPE token_action;
DROP TYPE account_status;

COMMIT;

-- Removes the descriptions.

BEGIN;

COMMENT ON TABLE accounts IS NULL;
COMMENT ON COLUMN accounts.email IS NULL;
COMMENT ON COLUMN accounts.status IS NULL;
COMMENT ON COLUMN accounts.login IS NULL;
COMMENT ON COLUMN accounts.created_at IS NULL;
COMMENT ON COLUMN accounts.status_changed_at IS NULL;
COMMENT ON COLUMN accounts.activated_at IS NULL;
COMMENT ON COLUMN accounts.suspended_at IS NULL;
COMMENT ON COLUMN accounts.unsuspended_at IS NULL;
COMMENT ON CONSTRAINT accounts_email_key ON accounts IS NULL;
COMMENT ON CONSTRAINT accounts_login_key ON accounts IS NULL;
COMMENT ON INDEX accounts_id_status_idx IS NULL;
COMMENT ON TABLE tokens IS NULL;
COMMENT ON COLUMN tokens.action IS NULL;
COMMENT ON COLUMN tokens.secret IS NULL;
COMMENT ON COLUMN tokens.code IS NULL;
COMMENT ON COLUMN tokens.account IS NULL;
COMMENT ON COLUMN tokens.expires_at IS NULL;
COMMENT ON COLUMN tokens.consumed_at IS NULL;
COMMENT ON COLUMN tokens.created_at IS NULL;
COMMENT ON CONSTRAINT tokens_secret_key ON tokens IS NULL;
COMMENT ON CONSTRAINT tokens_code_five_digits ON tokens IS NULL;
COMMENT ON CONSTRAINT tokens_account_fkey ON tokens IS NULL;
COMMENT ON INDEX tokens_account_fkey IS NULL;
COMMENT ON TABLE jobs IS NULL;
COMMENT ON COLUMN jobs.job_type IS NULL;
COMMENT ON COLUMN jobs.last_seq IS NULL;
COMMENT ON INDEX jobs_last_seq_type_idx IS NULL;
COMMENT ON FUNCTION generate_token_code() IS NULL;
COMMENT ON FUNCTION trg_after_account_insert() IS NULL;
COMMENT ON FUNCTION trg_before_account_status_change() IS NULL;
COMMENT ON FUNCTION trg_after_token_consumed() IS NULL;
COMMENT ON FUNCTION trg_after_token_inserted() IS NULL;

COMMIT;

-- Fault: nothing in the database said what a column holds, in which unit, or which query an index
-- is there for.
--
-- Locks: others read and write all the while; some milliseconds.

BEGIN;

COMMENT ON TABLE accounts IS 'People who registered, and where each of them stands.';
COMMENT ON COLUMN accounts.email IS 'Address that mails go to; unique as written, case included.';
COMMENT ON COLUMN accounts.status IS
    'provisioned: registered, address not confirmed; active: confirmed; suspended: '
    'barred until unsuspended.';
COMMENT ON COLUMN accounts.login IS 'Name shown in mails; unique as written, case included.';
COMMENT ON COLUMN accounts.created_at IS 'Seconds since the Unix epoch.';
COMMENT ON COLUMN accounts.status_changed_at IS
    'Last change of status, in seconds since the Unix epoch; kept by trigger.';
COMMENT ON COLUMN accounts.activated_at IS
    'First activation, in seconds since the Unix epoch; null until then; kept by trigger.';
COMMENT ON COLUMN accounts.suspended_at IS
    'Start of the present suspension, in seconds since the Unix epoch; '
    'null if there is none; kept by trigger.';
COMMENT ON COLUMN accounts.unsuspended_at IS
    'End of the last suspension, in seconds since the Unix epoch; '
    'null during one; kept by trigger.';

COMMENT ON CONSTRAINT accounts_email_key ON accounts IS
    'Serves ON CONFLICT (email) and finding an account by address.';
COMMENT ON CONSTRAINT accounts_login_key ON accounts IS
    'Serves ON CONFLICT (login) and finding an account by name.';
COMMENT ON INDEX accounts_id_status_idx IS
    'Serves the collector: whether a token''s account has the status '
    'that its action needs, by index alone.';

COMMENT ON TABLE tokens IS
    'One-time tokens. Secret, code, action and expiry of a row never change: '
    'more time means a new row.';
COMMENT ON COLUMN tokens.action IS
    'activation: confirms the address of a provisioned account; password_recovery: '
    'for an active account.';
COMMENT ON COLUMN tokens.secret IS
    '32 random bytes, which the signed link carries; whoever knows them has the token.';
COMMENT ON COLUMN tokens.code IS
    'Five ASCII digits, leading zeros included, each code equally likely; the mail shows it, '
    'the person types it.';
COMMENT ON COLUMN tokens.account IS 'Account the token belongs to; it is deleted with it.';
COMMENT ON COLUMN tokens.expires_at IS
    'First second at which the token is no longer valid, in seconds since the Unix epoch; 15 '
    'minutes from now by default.';
COMMENT ON COLUMN tokens.consumed_at IS
    'When the token was used, in seconds since the Unix epoch; null until then.';
COMMENT ON COLUMN tokens.created_at IS 'Seconds since the Unix epoch.';

COMMENT ON CONSTRAINT tokens_secret_key ON tokens IS
    'Serves redeeming: the row that belongs to a link.';
COMMENT ON CONSTRAINT tokens_code_five_digits ON tokens IS
    'Nothing but five ASCII digits can be signed.';
COMMENT ON CONSTRAINT tokens_account_fkey ON tokens IS
    'Deferred to the commit, so that applications may insert a token before its account.';
COMMENT ON INDEX tokens_account_fkey IS
    'Serves the deletion of an account and finding an account''s tokens.';

COMMENT ON TABLE jobs IS 'How far collectors have read.';
COMMENT ON COLUMN jobs.job_type IS 'Name of the queue.';
COMMENT ON COLUMN jobs.last_seq IS 'Id of the last token that was handed over; 0 before the first.';
COMMENT ON INDEX jobs_last_seq_type_idx IS
    'Serves collectors that join jobs and tokens by last_seq.';

COMMENT ON FUNCTION generate_token_code() IS
    'Five decimal digits from a cryptographic generator, uniformly distributed.';
COMMENT ON FUNCTION trg_after_account_insert() IS
    'Gives a provisioned account its activation token, in the same transaction.';
COMMENT ON FUNCTION trg_before_account_status_change() IS
    'Keeps the times of an account''s status; a suspension lifted from a never activated account '
    'leaves it provisioned.';
COMMENT ON FUNCTION trg_after_token_consumed() IS
    'Activates a provisioned account whose activation token was used.';
COMMENT ON FUNCTION trg_after_token_inserted() IS
    'Notifies token_insert, with an empty payload so that a transaction sends one notification.';

COMMIT;

-- What the tables keep by themselves. Trigger functions found tables on the search path of whoever
-- changed a row, and compared enums by an operator for any enum, which PostgreSQL passes over for
-- one of exactly this enum further down the search path: whoever may create objects in the schema
-- of the tables, which in the schema public of a database from before PostgreSQL 15 is everybody,
-- could define one and have it executed with the rights of those who change rows. Text is compared
-- by a built-in operator that nothing can match better. Integers end on 2038-01-19.

CREATE OR REPLACE FUNCTION trg_before_account_status_change() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    changed_at bigint := extract(epoch FROM now());
BEGIN
    IF NEW.status::text = OLD.status::text THEN
        RETURN NEW;
    END IF;

    NEW.status_changed_at := changed_at;

    IF NEW.status::text = 'suspended' THEN
        NEW.suspended_at := changed_at;
        NEW.unsuspended_at := NULL;
        -- An account that was inserted as active has no time of activation, so that a suspension
        -- and its end would make it provisioned, and it would get no recovery any more. Of those
        -- that are suspended already nobody knows whether they were active before; where an
        -- installation knows, it sets activated_at itself.
        IF OLD.status::text = 'active' AND OLD.activated_at IS NULL THEN
            NEW.activated_at := coalesce(NEW.activated_at, OLD.status_changed_at, OLD.created_at);
        END IF;
    ELSIF OLD.status::text = 'suspended' THEN
        NEW.unsuspended_at := changed_at;
        NEW.suspended_at := NULL;
        -- Lifting a suspension must not activate an account whose address was never confirmed.
        IF OLD.activated_at IS NULL THEN
            NEW.status := 'provisioned';
        END IF;
    ELSIF NEW.status::text = 'active' AND OLD.activated_at IS NULL THEN
        NEW.activated_at := changed_at;
    END IF;

    RETURN NEW;
END;
$$;

COMMENT ON FUNCTION trg_before_account_status_change() IS
    'Keeps the times of an account''s status; a suspension lifted from a never activated account '
    'leaves it provisioned. An active account without a time of activation gets one when it is '
    'suspended: when its status last changed or, if it never did, when it was made.';

-- Nothing kept anybody from changing the secret, code or expiry of a token for which a mail had
-- gone out, from giving it to another account, or from making a used one fresh again. Only
-- consumed_at changes, once, from null to a time: existing applications consume that way.
CREATE FUNCTION trg_after_token_changed() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    changed text := CASE
        WHEN NEW.id IS DISTINCT FROM OLD.id THEN 'id'
        WHEN NEW.action::text IS DISTINCT FROM OLD.action::text THEN 'action'
        WHEN NEW.secret IS DISTINCT FROM OLD.secret THEN 'secret'
        WHEN NEW.code::text IS DISTINCT FROM OLD.code::text THEN 'code'
        WHEN NEW.account IS DISTINCT FROM OLD.account THEN 'account'
        WHEN NEW.expires_at IS DISTINCT FROM OLD.expires_at THEN 'expires_at'
        WHEN NEW.created_at IS DISTINCT FROM OLD.created_at THEN 'created_at'
        ELSE 'consumed_at'
    END;
BEGIN
    RAISE EXCEPTION 'the % of token % cannot be changed', changed, OLD.id
        USING ERRCODE = 'integrity_constraint_violation',
            SCHEMA = TG_TABLE_SCHEMA,
            TABLE = TG_TABLE_NAME,
            COLUMN = changed,
            HINT = CASE changed
                WHEN 'consumed_at' THEN
                    'The token is used, and a use is neither taken back nor dated anew.'
                ELSE 'A token''s row stays as its mail was signed. Insert another row instead.'
            END;
END;
$$;

COMMENT ON FUNCTION trg_after_token_changed() IS
    'Refuses every change of a token but its use, which is consumed_at going from null to a time.';

DO $$
DECLARE
    home name := (
        SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE pg_class.oid = 'tokens'::regclass::oid
    );
BEGIN
    EXECUTE pg_catalog.format(
        'ALTER FUNCTION trg_before_account_status_change() SET search_path = pg_catalog, %1$I, '
        'pg_temp; '
        'ALTER FUNCTION trg_after_token_changed() SET search_path = pg_catalog, %1$I, pg_temp',
        home
    );
END;
$$;

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
COMMENT ON CONSTRAINT tokens_account_fkey ON tokens IS
    'Deferred to the commit, so that applications may insert a token before its account.';
COMMENT ON INDEX tokens_account_fkey IS
    'Serves the deletion of an account and finding an account''s tokens.';

COMMENT ON TABLE jobs IS 'How far collectors have read.';
COMMENT ON COLUMN jobs.job_type IS 'Name of the queue.';
COMMENT ON INDEX jobs_last_seq_type_idx IS
    'Serves collectors that join jobs and tokens by last_seq.';

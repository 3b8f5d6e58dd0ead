-- What migrations 0 to 10 make of an empty schema, at once: accounts, their tokens, and how far a
-- collector has read. `mailroom migrate up` executes it in their place where there is nothing yet;
-- a test compares the two.

BEGIN;

SET LOCAL client_min_messages = warning;

-- Not IF NOT EXISTS: hosted servers refuse the command itself unless it names the schema that they
-- have for extensions.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'pgcrypto') THEN
        IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'heroku_ext') THEN
            CREATE EXTENSION pgcrypto SCHEMA heroku_ext;
        ELSE
            CREATE EXTENSION pgcrypto;
        END IF;
    END IF;
END;
$$;

CREATE TYPE account_status AS ENUM ('provisioned', 'active', 'suspended');
CREATE TYPE token_action AS ENUM ('activation', 'password_recovery');
CREATE TYPE job_type AS ENUM ('mailroom');

-- Without a search path of its own, which every insert of a token would set:
-- all names have their schema.
CREATE FUNCTION generate_token_code() RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS $$
DECLARE
    number bigint;
BEGIN
    LOOP
        -- The first 32 bits of a random UUID are all random.
        number := ('x' OPERATOR(pg_catalog.||)
            pg_catalog.left(pg_catalog.gen_random_uuid()::pg_catalog.text, 8))::bit(32)::bigint;
        -- What lies above the largest multiple of 100,000 below 2^32 would favour the lower codes.
        EXIT WHEN number OPERATOR(pg_catalog.<) 4294900000;
    END LOOP;

    RETURN pg_catalog.to_char(number OPERATOR(pg_catalog.%) 100000, 'FM00000');
END;
$$;

GRANT EXECUTE ON FUNCTION generate_token_code() TO PUBLIC;

COMMENT ON FUNCTION generate_token_code() IS
    'Five decimal digits from a cryptographic generator, uniformly distributed.';

CREATE TABLE accounts (
    id bigserial,
    email varchar(254) NOT NULL,
    status account_status NOT NULL DEFAULT 'provisioned',
    login varchar(254) NOT NULL,
    created_at bigint NOT NULL DEFAULT extract(epoch FROM now()),
    status_changed_at bigint,
    activated_at bigint,
    suspended_at bigint,
    unsuspended_at bigint,

    CONSTRAINT accounts_pkey PRIMARY KEY (id),
    CONSTRAINT accounts_email_key UNIQUE (email),
    CONSTRAINT accounts_login_key UNIQUE (login)
);

CREATE INDEX accounts_id_status_idx ON accounts (id, status);

CREATE TABLE tokens (
    id bigserial,
    action token_action NOT NULL,
    secret bytea NOT NULL DEFAULT gen_random_bytes(32),
    code varchar(5) DEFAULT generate_token_code(),
    account bigint NOT NULL,
    expires_at bigint NOT NULL DEFAULT extract(epoch FROM now() + interval '15 minutes'),
    consumed_at bigint,
    created_at bigint NOT NULL DEFAULT extract(epoch FROM now()),

    CONSTRAINT tokens_pkey PRIMARY KEY (id),
    CONSTRAINT tokens_secret_key UNIQUE (secret),
    CONSTRAINT tokens_code_five_digits CHECK (code ~ '^[0-9]{5}$'),
    CONSTRAINT tokens_account_fkey FOREIGN KEY (account) REFERENCES accounts (id)
        ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);

CREATE INDEX tokens_account_fkey ON tokens (account);

CREATE TABLE jobs (
    job_type job_type,
    last_seq bigint,

    CONSTRAINT jobs_pkey PRIMARY KEY (job_type)
);

CREATE INDEX jobs_last_seq_type_idx ON jobs (last_seq, job_type);

INSERT INTO jobs (job_type, last_seq) VALUES ('mailroom', 0);

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

CREATE FUNCTION trg_before_account_status_change() RETURNS trigger
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

CREATE FUNCTION trg_after_token_consumed() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.action::text = 'activation' THEN
        UPDATE accounts SET status = 'active' WHERE id = NEW.account
            AND status::text = 'provisioned';
    END IF;

    RETURN NULL;
END;
$$;

CREATE FUNCTION trg_after_account_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO tokens (account, action) VALUES (NEW.id, 'activation');

    RETURN NULL;
END;
$$;

CREATE FUNCTION trg_after_token_inserted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    -- Without a payload equal notifications of one transaction are merged into one.
    NOTIFY token_insert;

    RETURN NULL;
END;
$$;

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

REVOKE ALL ON FUNCTION trg_after_account_insert() FROM PUBLIC;

DO $$
DECLARE
    home name := current_schema();
    trigger_function text;
BEGIN
    FOREACH trigger_function IN ARRAY ARRAY[
        'trg_before_account_status_change', 'trg_after_token_consumed', 'trg_after_account_insert',
        'trg_after_token_inserted',
        'trg_after_token_changed'
    ] LOOP
        EXECUTE format('ALTER FUNCTION %I() SET search_path = pg_catalog, %I, pg_temp',
            trigger_function, home);
    END LOOP;
END;
$$;

COMMENT ON FUNCTION trg_before_account_status_change() IS
    'Keeps the times of an account''s status; a suspension lifted from a never activated account '
    'leaves it provisioned.';
COMMENT ON FUNCTION trg_after_token_consumed() IS
    'Activates a provisioned account whose activation token was used.';
COMMENT ON FUNCTION trg_after_token_inserted() IS
    'Notifies token_insert, with an empty payload so that a transaction sends one notification.';

COMMENT ON FUNCTION trg_after_account_insert() IS
    'Gives a provisioned account its activation token, in the same transaction and with the rights '
    'of this function''s owner.';
COMMENT ON FUNCTION trg_after_token_changed() IS
    'Refuses every change of a token but its use, which is consumed_at going from null to a time.';

CREATE TRIGGER before_account_status_change
    BEFORE UPDATE OF status ON accounts
    FOR EACH ROW
    EXECUTE FUNCTION trg_before_account_status_change();

CREATE TRIGGER after_account_insert
    AFTER INSERT ON accounts
    FOR EACH ROW
    WHEN (NEW.status::text = 'provisioned')
    EXECUTE FUNCTION trg_after_account_insert();

CREATE TRIGGER after_token_consumed
    AFTER UPDATE OF consumed_at ON tokens
    FOR EACH ROW
    WHEN (OLD.consumed_at IS NULL AND NEW.consumed_at IS NOT NULL)
    EXECUTE FUNCTION trg_after_token_consumed();

CREATE TRIGGER after_token_inserted
    AFTER INSERT ON tokens
    FOR EACH ROW
    EXECUTE FUNCTION trg_after_token_inserted();

CREATE TRIGGER after_token_changed
    AFTER UPDATE ON tokens
    FOR EACH ROW
    WHEN (
        NEW.id IS DISTINCT FROM OLD.id
        OR NEW.action::text IS DISTINCT FROM OLD.action::text
        OR NEW.secret IS DISTINCT FROM OLD.secret
        OR NEW.code::text IS DISTINCT FROM OLD.code::text
        OR NEW.account IS DISTINCT FROM OLD.account
        OR NEW.expires_at IS DISTINCT FROM OLD.expires_at
        OR NEW.created_at IS DISTINCT FROM OLD.created_at
        OR (OLD.consumed_at IS NOT NULL AND NEW.consumed_at IS DISTINCT FROM OLD.consumed_at)
    )
    EXECUTE FUNCTION trg_after_token_changed();

COMMIT;

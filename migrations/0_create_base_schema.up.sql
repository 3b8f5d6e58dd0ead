-- Accounts, their tokens, and how far a collector has read. Names and types are those of existing
-- installations, faults included: the migrations that follow mend them one by one, so that a fresh
-- database and an old one arrive at the same schema.

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

CREATE TABLE accounts (
    id bigserial,
    email varchar(254) NOT NULL,
    status account_status NOT NULL DEFAULT 'provisioned',
    login varchar(254) NOT NULL,
    created_at integer NOT NULL DEFAULT extract(epoch FROM now()),
    status_changed_at integer,
    activated_at integer,
    suspended_at integer,
    unsuspended_at integer,

    CONSTRAINT accounts_pkey PRIMARY KEY (id),
    CONSTRAINT accounts_email_key UNIQUE (email),
    CONSTRAINT accounts_login_key UNIQUE (login)
);

CREATE INDEX accounts_id_status_idx ON accounts (id, status);

CREATE TYPE token_action AS ENUM ('activation', 'password_recovery');

CREATE TABLE tokens (
    id bigserial,
    action token_action NOT NULL,
    secret bytea NOT NULL DEFAULT gen_random_bytes(32),
    code varchar(5) DEFAULT to_char(random() * 100000::double precision, 'FM00000'),
    account bigint NOT NULL,
    expires_at integer NOT NULL DEFAULT extract(epoch FROM now() + interval '15 minutes'),
    consumed_at integer,
    created_at integer NOT NULL DEFAULT extract(epoch FROM now()),

    CONSTRAINT tokens_pkey PRIMARY KEY (id),
    CONSTRAINT tokens_secret_key UNIQUE (secret),
    -- Deferred, because the token is inserted before its account is.
    CONSTRAINT tokens_account_fkey FOREIGN KEY (account) REFERENCES accounts (id)
        ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);

CREATE INDEX tokens_account_fkey ON tokens (account);
CREATE INDEX tokens_id_expires_consumed_action_idx ON tokens (id, expires_at, consumed_at, action);

CREATE TYPE job_type AS ENUM ('mailroom');

CREATE TABLE jobs (
    job_type job_type,
    last_seq bigint,

    CONSTRAINT jobs_pkey PRIMARY KEY (job_type)
);

CREATE INDEX jobs_last_seq_type_idx ON jobs (last_seq, job_type);

INSERT INTO jobs (job_type, last_seq) VALUES ('mailroom', 0);

CREATE FUNCTION trg_before_account_insert() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status = 'provisioned' THEN
        INSERT INTO tokens (account, action) VALUES (NEW.id, 'activation');
    END IF;

    RETURN NEW;
END;
$$;

CREATE TRIGGER before_account_insert
    BEFORE INSERT ON accounts
    FOR EACH ROW
    EXECUTE FUNCTION trg_before_account_insert();

CREATE FUNCTION trg_before_account_status_change() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    changed_at integer := extract(epoch FROM now());
BEGIN
    IF NEW.status = OLD.status THEN
        RETURN NEW;
    END IF;

    NEW.status_changed_at := changed_at;

    IF NEW.status = 'suspended' THEN
        NEW.suspended_at := changed_at;
        NEW.unsuspended_at := NULL;
    ELSIF OLD.status = 'suspended' THEN
        NEW.unsuspended_at := changed_at;
        NEW.suspended_at := NULL;
        -- Lifting a suspension must not activate an account whose address was never confirmed.
        IF OLD.activated_at IS NULL THEN
            NEW.status := 'provisioned';
        END IF;
    ELSIF NEW.status = 'active' AND OLD.activated_at IS NULL THEN
        NEW.activated_at := changed_at;
    END IF;

    RETURN NEW;
END;
$$;

CREATE TRIGGER before_account_status_change
    BEFORE UPDATE OF status ON accounts
    FOR EACH ROW
    EXECUTE FUNCTION trg_before_account_status_change();

CREATE FUNCTION trg_after_token_consumed() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.action = 'activation' THEN
        UPDATE accounts SET status = 'active' WHERE id = NEW.account AND status = 'provisioned';
    END IF;

    RETURN NULL;
END;
$$;

CREATE TRIGGER after_token_consumed
    AFTER UPDATE OF consumed_at ON tokens
    FOR EACH ROW
    WHEN (OLD.consumed_at IS NULL AND NEW.consumed_at IS NOT NULL)
    EXECUTE FUNCTION trg_after_token_consumed();

CREATE FUNCTION trg_after_token_inserted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    -- Without a payload equal notifications of one transaction are merged into one.
    NOTIFY token_insert;

    RETURN NULL;
END;
$$;

CREATE TRIGGER after_token_inserted
    AFTER INSERT ON tokens
    FOR EACH ROW
    EXECUTE FUNCTION trg_after_token_inserted();

COMMIT;

-- Fault: the secrets and codes of accounts' tokens stood in their table in clear for
-- as long as a row lived.
--
-- From here on they are made for the queue alone, and are gone when a mail is sent. An application
-- redeems by mailroom.redeem(); its own UPDATE by secret finds nothing any more. So this step is
-- the operator's to take: `mailroom migrate up --drop-secrets`. It does not go back. What the rows
-- held leaves the files when they are rewritten, by VACUUM FULL or as they are pruned.
--
-- Without a secret a row of `tokens` serves nobody. A registration therefore inserts into
-- mailroom.issued_tokens alone, which is faster. What mailroom.request() or an application inserts
-- into `tokens` is sent as before.
--
-- Locks: nobody reads or writes tokens for some milliseconds, however large it is. Before, it is
-- read for tokens of old, 1 s with two million.

BEGIN;

-- The lifetime of activations is taken over from the column's default, as far as an action can have
-- it. Before the table is locked: this waits for transactions
-- that have called enqueue() for that action.
DO $$
DECLARE
    expiry text := (
        SELECT pg_get_expr(adbin, adrelid)
        FROM pg_attrdef
        JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
        WHERE adrelid = 'tokens'::regclass::oid AND attname = 'expires_at'
    );
    seconds bigint;
BEGIN
    EXECUTE pg_catalog.format('SELECT (%s)::bigint - extract(epoch FROM now())::bigint',
        coalesce(expiry, 'NULL')) INTO seconds;

    IF seconds > 0 THEN
        seconds := least(greatest(seconds, 60), 366 * 86400);
        UPDATE mailroom.actions SET lifetime = pg_catalog.make_interval(secs => seconds)
        WHERE number = 1
            AND lifetime <> pg_catalog.make_interval(secs => seconds);
    END IF;
END;
$$;

-- Ends an autovacuum, for which others would have to wait together with the locks below.
LOCK TABLE tokens IN SHARE UPDATE EXCLUSIVE MODE;

-- Read before others are locked out: no such token comes any more.
DO $$
DECLARE
    fault text := CASE
        WHEN EXISTS (
            SELECT FROM jobs, pg_locks
            WHERE locktype = 'advisory' AND granted AND objsubid = 1
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                AND (classid::bigint << 32) | objid::bigint
                    = hashtextextended(
                        pg_catalog.format(
                            'mailroom queue %s in %s', job_type, 'jobs'::regclass::oid
                        ),
                        0::bigint
                    )
        ) THEN 'a collector of the queue cursor is at work; end it'
        WHEN EXISTS (
            SELECT FROM tokens
            WHERE consumed_at IS NULL
                AND expires_at::numeric > extract(epoch FROM clock_timestamp())
                AND NOT EXISTS (SELECT FROM mailroom.issued_tokens
                    WHERE issued_tokens.id = tokens.id)
        ) THEN 'a token of the base schema can still be used; wait until it has expired'
    END;
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'secrets are still needed: %', fault
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END;
$$;

SELECT mailroom.lock_briefly('mailroom.adopted_tokens', 'tokens');

DROP VIEW mailroom.adopted_tokens;
DROP TRIGGER after_token_changed ON tokens;
DROP FUNCTION trg_after_token_changed();

ALTER TABLE tokens DROP COLUMN secret, DROP COLUMN code;

DROP FUNCTION generate_token_code();

CREATE VIEW mailroom.adopted_tokens AS SELECT id, action, account, expires_at, consumed_at,
    created_at FROM tokens;

COMMENT ON VIEW mailroom.adopted_tokens IS 'The table of the accounts'' tokens, wherever it is.';

COMMENT ON TABLE tokens IS
    'One-time tokens that were requested; those of registrations are in mailroom.issued_tokens '
    'alone. Action and expiry of a row never change: more time means a new row. TRUNCATE takes all '
    'accounts'' tokens away, also those of registrations.';

CREATE OR REPLACE FUNCTION mailroom.trg_after_accounts_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET jit = off AS $$
BEGIN
    WITH
    fresh AS MATERIALIZED (
        SELECT mailroom.next_token_id() AS id, made.id AS account, mailroom.clock()
            AS now, mailroom.generate_secret() AS secret
        FROM made
        WHERE status = 'provisioned'
    ),
    known AS (
        INSERT INTO mailroom.issued_tokens (
            id, action, subject_id, recipient_email, recipient_name, language, consumed_id,
                created_at, expires_at, binding, traceparent
        )
        SELECT
            fresh.id,
            1::smallint,
            fresh.account::text,
            CASE WHEN mailroom.is_addressable(accounts.email::text) THEN accounts.email::text END,
            accounts.login::text,
            mailroom.language_tag(accounts.language),
            mailroom.consumed_id(fresh.secret),
            floor(extract(epoch FROM fresh.now))::bigint,
            ceil(extract(
                epoch FROM fresh.now + (SELECT lifetime FROM mailroom.actions WHERE number = 1)
            ))::bigint,
            CASE WHEN current_setting('mailroom.binding', true) <> ''
                THEN mailroom.binding_setting() END,
            CASE WHEN current_setting('mailroom.traceparent', true) <> ''
                THEN mailroom.traceparent(NULL::text) END
        FROM fresh
        LEFT JOIN LATERAL (
            SELECT email, login, language FROM mailroom.adopted_accounts
                WHERE id = fresh.account OFFSET 0
        ) AS accounts ON true
    )
    INSERT INTO mailroom.queue (token, due_at, priority, secret)
    SELECT id, now, 1::smallint, secret FROM fresh;

    RETURN NULL;
END;
$$;

CREATE OR REPLACE FUNCTION mailroom.trg_after_tokens_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET jit = off AS $$
BEGIN
    WITH
    fresh AS MATERIALIZED (
        SELECT
            made.*,
            CASE made.action WHEN 'activation' THEN 1::smallint ELSE 2::smallint END AS number,
            mailroom.generate_secret() AS secret,
            CASE made.action WHEN 'activation' THEN NULL ELSE mailroom.generate_code(5) END AS code
        FROM made
    ),
    known AS (
        INSERT INTO mailroom.issued_tokens (
            id, action, subject_id, recipient_email, recipient_name, language, consumed_id,
                code_hash, created_at, expires_at,
            consumed_at, binding, traceparent
        )
        SELECT
            fresh.id,
            fresh.number,
            fresh.account::text,
            CASE WHEN mailroom.is_addressable(accounts.email::text) THEN accounts.email::text END,
            accounts.login::text,
            mailroom.language_tag(accounts.language),
            mailroom.consumed_id(fresh.secret),
            mailroom.code_hash(fresh.secret, fresh.code),
            fresh.created_at,
            fresh.expires_at,
            fresh.consumed_at,
            CASE WHEN current_setting('mailroom.binding', true) <> ''
                THEN mailroom.binding_setting() END,
            CASE WHEN current_setting('mailroom.traceparent', true) <> ''
                THEN mailroom.traceparent(NULL::text) END
        FROM fresh
        -- OFFSET 0 keeps this a look-up by primary key for each row.
        LEFT JOIN LATERAL (
            SELECT email, login, language FROM mailroom.adopted_accounts
                WHERE id = fresh.account OFFSET 0
        ) AS accounts ON true
    )
    INSERT INTO mailroom.queue (token, due_at, priority, secret, code)
    SELECT id, mailroom.clock(), 2::smallint - number, secret, code FROM fresh;

    RETURN NULL;
END;
$$;

CREATE FUNCTION mailroom.trg_after_token_changed() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the row of token % cannot be changed', OLD.id
        USING ERRCODE = 'integrity_constraint_violation',
            SCHEMA = TG_TABLE_SCHEMA,
            TABLE = TG_TABLE_NAME,
            HINT = 'A token''s row stays as its mail was signed, and a use is neither taken back '
                'nor dated anew. Insert another row instead.';
END;
$$;

REVOKE ALL ON FUNCTION mailroom.trg_after_token_changed() FROM PUBLIC;

COMMENT ON FUNCTION mailroom.trg_after_token_changed() IS
    'Refuses every change of a token but its use, which is consumed_at going from null to a time.';

CREATE TRIGGER after_token_changed
    AFTER UPDATE ON tokens
    FOR EACH ROW
    WHEN (
        (NEW.id, NEW.account, NEW.expires_at, NEW.created_at) IS DISTINCT
            FROM (OLD.id, OLD.account, OLD.expires_at, OLD.created_at)
        OR NEW.action::text IS DISTINCT FROM OLD.action::text
        OR (OLD.consumed_at IS NOT NULL AND NEW.consumed_at IS DISTINCT FROM OLD.consumed_at)
    )
    EXECUTE FUNCTION mailroom.trg_after_token_changed();

-- A superuser may execute this for the owner.
DO $$
BEGIN
    EXECUTE pg_catalog.format(
        'ALTER VIEW mailroom.adopted_tokens OWNER TO %1$s;
        ALTER FUNCTION mailroom.trg_after_token_changed() OWNER TO %1$s',
        (SELECT relowner::regrole FROM pg_class WHERE oid = 'mailroom.queue'::regclass::oid)
    );
END;
$$;

SELECT mailroom.revoke_default_privileges();
SELECT mailroom.refuse_public_definers();

COMMIT;

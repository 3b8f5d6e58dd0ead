-- Accounts get activation tokens, and tokens are queued, by the transaction that inserts them. A
-- registration needs no right on tokens: with one, an application could make a token for any
-- account, with a secret and a code of its own choice.

CREATE FUNCTION mailroom.trg_after_accounts_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO mailroom.adopted_tokens (account, action)
    SELECT id, 'activation' FROM made WHERE status = 'provisioned';

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION mailroom.trg_after_accounts_insert() IS
    'Gives provisioned accounts their activation tokens, in the same transaction and with the '
    'rights of this function''s owner.';

-- Where accounts come by logical replication no trigger of a statement fires. This one does nothing
-- unless it is enabled.
CREATE FUNCTION mailroom.trg_after_account_replicated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO mailroom.adopted_tokens (account, action) VALUES (NEW.id, 'activation');
    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION mailroom.trg_after_account_replicated() IS
    'Gives a provisioned account that came by logical replication its activation token, where its '
    'trigger is enabled for replicas.';

-- A transaction that makes accounts or tokens by plain INSERT has no other way to say it. A value
-- for the whole session is no good: the next one that a pooled connection serves is somebody else.
CREATE FUNCTION mailroom.binding_setting() RETURNS bytea
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Empty once a transaction has had one.
    given text := nullif(current_setting('mailroom.binding', true), '');
BEGIN
    IF given !~ '^[0-9A-Fa-f]{32}$' THEN
        RAISE EXCEPTION 'the setting mailroom.binding is not of 32 hexadecimal digits'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    RETURN decode(given, 'hex');
END;
$$;

COMMENT ON FUNCTION mailroom.binding_setting() IS
    'The browser that the links of accounts'' tokens of this transaction are for, by the setting '
    'mailroom.binding; null for any.';

-- An account that is inserted after its token has no address yet: such a token goes to the one that
-- it gets. So does one whose account has an address that no mail can be sent to: it is cancelled,
-- with that reason, if there is still none when it is claimed. Both rows are made by one statement,
-- and enums are compared as such, where the search path has no operators but PostgreSQL's own: each
-- statement, and each function in one, takes a registration longer. Without jit: a plan that a
-- session made for many rows would be compiled for every single row after them, which takes ten
-- times as long as the row.
CREATE FUNCTION mailroom.trg_after_tokens_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET jit = off AS $$
BEGIN
    WITH known AS (
        INSERT INTO mailroom.issued_tokens (
            id, action, subject_id, recipient_email, recipient_name, language, consumed_id,
                code_hash, created_at, expires_at,
            consumed_at, binding, traceparent
        )
        SELECT
            made.id,
            CASE made.action WHEN 'activation' THEN 1::smallint ELSE 2::smallint END,
            made.account::text,
            CASE WHEN mailroom.is_addressable(accounts.email::text) THEN accounts.email::text END,
            accounts.login::text,
            mailroom.language_tag(accounts.language),
            mailroom.consumed_id(made.secret),
            CASE made.action WHEN 'activation' THEN NULL
                ELSE mailroom.code_hash(made.secret, made.code::text) END,
            made.created_at,
            made.expires_at,
            made.consumed_at,
            CASE WHEN current_setting('mailroom.binding', true) <> ''
                THEN mailroom.binding_setting() END,
            CASE WHEN current_setting('mailroom.traceparent', true) <> ''
                THEN mailroom.traceparent(NULL::text) END
        FROM made
        -- OFFSET 0 keeps this a look-up by primary key for each row.
        LEFT JOIN LATERAL (
            SELECT email, login, language FROM mailroom.adopted_accounts
                WHERE id = made.account OFFSET 0
        ) AS accounts ON true
    )
    INSERT INTO mailroom.queue (token, due_at, priority, secret, code)
    SELECT id, mailroom.clock(), CASE action WHEN 'activation' THEN 1::smallint
        ELSE 0::smallint END, secret, code::text
    FROM made;

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION mailroom.trg_after_tokens_insert() IS
    'Queues new tokens of accounts in the same transaction.';

-- The functions reach both tables by views, which follow them when they or their schema are
-- renamed. They are written through, so that they have no expressions: catch_up makes
-- adopted_tokens anew when the columns of tokens have become wider.

CREATE VIEW mailroom.adopted_accounts AS SELECT id, email, login, status, NULL::text AS language
    FROM accounts;

CREATE VIEW mailroom.adopted_tokens AS
    SELECT id, action, secret, code, account, expires_at, consumed_at, created_at FROM tokens;

COMMENT ON VIEW mailroom.adopted_accounts IS 'The table of accounts, wherever it is.';
COMMENT ON COLUMN mailroom.adopted_accounts.language IS
    'Language of an account''s mails, as in BCP 47; what is no tag counts as none. Replace the '
    'view where accounts have a language.';
COMMENT ON VIEW mailroom.adopted_tokens IS 'The table of the accounts'' tokens, wherever it is.';

-- One sequence for all ids: a token of an account has the same in both tables.
CREATE OR REPLACE FUNCTION mailroom.next_token_id() RETURNS bigint
LANGUAGE sql VOLATILE
RETURN nextval('tokens_id_seq'::regclass);

DO $create$
DECLARE
    name text;
    status text;
BEGIN
    FOR name, status IN VALUES ('provisioned_accounts', 'provisioned'),
        ('active_accounts', 'active') LOOP
        EXECUTE pg_catalog.format(
            $format$
CREATE FUNCTION mailroom.%I(subject_ids text[], is_redemption boolean)
    RETURNS TABLE (subject_id text, email text, name text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    -- What is no id, or another spelling of one, is nobody, and keeps nobody else from being found.
    ids bigint[] := ARRAY(
        SELECT id::bigint FROM pg_catalog.unnest(subject_ids) AS id
        WHERE id ~ '^(0|[1-9][0-9]{0,17})$'
    );
BEGIN
    IF is_redemption THEN
        PERFORM FROM mailroom.adopted_accounts AS accounts WHERE id = ANY (ids) FOR NO KEY UPDATE;
    END IF;

    RETURN QUERY
    SELECT id::text, accounts.email::text, accounts.login::text
    FROM mailroom.adopted_accounts AS accounts
    WHERE id = ANY (ids) AND status::text = %L;
END;
$$
            $format$,
            name,
            status
        );
    END LOOP;
END;
$create$;

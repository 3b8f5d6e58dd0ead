-- Fault: nothing kept anybody from changing the secret, code or expiry of a token for which a mail
-- had gone out, from giving it to another account, or from making a used one fresh again. A signed
-- link and its row could disagree.
--
-- Only consumed_at still changes, once, from null to a time. That is left to whoever may update
-- tokens, because existing applications consume that way.
--
-- Locks: nobody reads or writes tokens for some milliseconds, however large it is.

BEGIN;

-- Ends an autovacuum, for which others would have to wait together with the locks below.
LOCK TABLE tokens IN SHARE UPDATE EXCLUSIVE MODE;

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

DO $$
DECLARE
    home name := (
        SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE pg_class.oid = 'tokens'::regclass
    );
BEGIN
    EXECUTE format('ALTER FUNCTION trg_after_token_changed() SET search_path = pg_catalog, %I, '
        'pg_temp', home);
END;
$$;

COMMENT ON FUNCTION trg_after_token_changed() IS
    'Refuses every change of a token but its use, which is consumed_at going from null to a time.';

-- AFTER, to judge what is really stored: a BEFORE trigger of somebody else could still change the
-- row behind it. The condition costs a consumption next to nothing, because the function is not
-- called for it. Enums and varchars are compared as text, because an operator of somebody else's
-- for exactly their types would be taken before the built-in one.
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

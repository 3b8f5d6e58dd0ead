-- Fault: nothing kept anybody from changing the secret, code or expiry of a token for which a mail had gone out, from
-- giving it to another account, or from making a used one fresh again. A signed link and its row could disagree.
--
-- Only consumed_at still changes, once, from null to a time. That is left to whoever may update tokens, because
-- existing applications consume that way.
--
-- Fault: a link confirmed an address that it was never sent to. Somebody who registered with his own address and changed it
-- before he opened the link was then active with the new one. The address is frozen with the token now: a token is sent and
-- used only while it is its account's address, and a change of the address cancels the token.
--
-- Locks: nobody reads or writes tokens while it is read once for the tokens that can still be used, 1 s with two million.

BEGIN;

ALTER TABLE tokens
    ADD COLUMN recipient varchar(254),
    ADD COLUMN cancelled_at bigint;

COMMENT ON COLUMN tokens.recipient IS
    'The account''s address when the token was made. Null in tokens that were made before their account, and in those that could'
    ' not be used any more when this column came.';
COMMENT ON COLUMN tokens.cancelled_at IS
    'When it ended without being used, in seconds since the Unix epoch; null if it did not.';

UPDATE tokens
SET recipient = accounts.email
FROM accounts
WHERE accounts.id = tokens.account
    AND tokens.consumed_at IS NULL
    AND tokens.expires_at > extract(epoch FROM clock_timestamp());

-- With the rights of its owner: whoever inserts tokens need not read accounts.
CREATE FUNCTION trg_before_token_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    SELECT email INTO NEW.recipient FROM accounts WHERE id = NEW.account;

    RETURN NEW;
END;
$$;

REVOKE ALL ON FUNCTION trg_before_token_insert() FROM PUBLIC;

COMMENT ON FUNCTION trg_before_token_insert() IS 'Freezes the account''s address with the token.';

-- Applications of the base schema use a token by their own UPDATE, and take a row that was not updated for one that is not valid.
-- With the rights of its owner, as above.
CREATE FUNCTION trg_before_token_consumed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF OLD.cancelled_at IS NOT NULL OR EXISTS (
        SELECT FROM accounts WHERE id = OLD.account AND email::text <> OLD.recipient::text COLLATE "C"
    ) THEN
        RETURN NULL;
    END IF;

    RETURN NEW;
END;
$$;

REVOKE ALL ON FUNCTION trg_before_token_consumed() FROM PUBLIC;

COMMENT ON FUNCTION trg_before_token_consumed() IS
    'Keeps a token unused that was cancelled, or that was sent to another address than its account has.';

CREATE TRIGGER before_token_consumed
    BEFORE UPDATE OF consumed_at ON tokens
    FOR EACH ROW
    WHEN (OLD.consumed_at IS NULL AND NEW.consumed_at IS NOT NULL)
    EXECUTE FUNCTION trg_before_token_consumed();

CREATE TRIGGER before_token_insert
    BEFORE INSERT ON tokens
    FOR EACH ROW
    WHEN (NEW.recipient IS NULL)
    EXECUTE FUNCTION trg_before_token_insert();

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
        WHEN NEW.recipient::text IS DISTINCT FROM OLD.recipient::text THEN 'recipient'
        WHEN NEW.cancelled_at IS DISTINCT FROM OLD.cancelled_at AND OLD.cancelled_at IS NOT NULL THEN 'cancelled_at'
        ELSE 'consumed_at'
    END;
BEGIN
    RAISE EXCEPTION 'the % of token % cannot be changed', changed, OLD.id
        USING ERRCODE = 'integrity_constraint_violation',
            SCHEMA = TG_TABLE_SCHEMA,
            TABLE = TG_TABLE_NAME,
            COLUMN = changed,
            HINT = CASE changed
                WHEN 'consumed_at' THEN 'The token is used, and a use is neither taken back nor dated anew.'
                WHEN 'cancelled_at' THEN 'The token is cancelled, and that is neither taken back nor dated anew.'
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
    EXECUTE format('ALTER FUNCTION trg_before_token_consumed() SET search_path = pg_catalog, %I, pg_temp', home);
    EXECUTE format('ALTER FUNCTION trg_before_token_insert() SET search_path = pg_catalog, %I, pg_temp', home);
    EXECUTE format('ALTER FUNCTION trg_after_token_changed() SET search_path = pg_catalog, %I, pg_temp', home);
END;
$$;

COMMENT ON FUNCTION trg_after_token_changed() IS
    'Refuses every change of a token but its use and its end, which are consumed_at and cancelled_at going from null to a'
    ' time.';

-- AFTER, to judge what is really stored: a BEFORE trigger of somebody else could still change the row behind it. The
-- condition costs a consumption next to nothing, because the function is not called for it. Enums and varchars are compared
-- as text, because an operator of somebody else's for exactly their types would be taken before the built-in one.
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
        OR NEW.recipient::text IS DISTINCT FROM OLD.recipient::text
        OR (OLD.cancelled_at IS NOT NULL AND NEW.cancelled_at IS DISTINCT FROM OLD.cancelled_at)
        OR (OLD.consumed_at IS NOT NULL AND NEW.consumed_at IS DISTINCT FROM OLD.consumed_at)
    )
    EXECUTE FUNCTION trg_after_token_changed();

COMMIT;

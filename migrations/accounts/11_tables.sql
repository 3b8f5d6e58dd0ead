-- What changes of the tables, under the locks: nothing that takes longer than milliseconds, however
-- large they are.

-- NOT VALID spares the table a scan; catch_up looks at the rows already there.
ALTER TABLE tokens
    ALTER COLUMN code SET DEFAULT generate_token_code(),
    ADD CONSTRAINT tokens_code_five_digits CHECK (code::text ~ '^[0-9]{5}$') NOT VALID;

COMMENT ON CONSTRAINT tokens_code_five_digits ON tokens IS
    'Nothing but five ASCII digits can be signed.';

-- Room for the new version of a row that is used or whose status changes; in pages that are written
-- from now on.
ALTER TABLE tokens SET (fillfactor = 90);

ALTER TABLE accounts SET (fillfactor = 90);

-- Tokens and accounts are looked up by id, which the primary keys serve. These two took 70 MB a
-- million, and kept changes of what they hold from being updates within the page.
DROP INDEX IF EXISTS tokens_id_expires_consumed_action_idx;
DROP INDEX IF EXISTS accounts_id_status_idx;

-- It made the token before the row of its account, so that INSERT ... ON CONFLICT DO NOTHING left a
-- token without an account and failed at the commit.
DROP TRIGGER before_account_insert ON accounts;
DROP FUNCTION trg_before_account_insert();

CREATE TRIGGER after_account_insert
    AFTER INSERT ON accounts
    REFERENCING NEW TABLE AS made
    FOR EACH STATEMENT
    EXECUTE FUNCTION mailroom.trg_after_accounts_insert();

-- For sessions that replay changes alone, however it is enabled: tools that load data without
-- triggers enable all of a table afterwards, this one, too, and a registration gets one mail.
CREATE TRIGGER after_account_replicated
    AFTER INSERT ON accounts
    FOR EACH ROW
    WHEN (NEW.status::text = 'provisioned'
        AND current_setting('session_replication_role'::text) = 'replica')
    EXECUTE FUNCTION mailroom.trg_after_account_replicated();

ALTER TABLE accounts DISABLE TRIGGER after_account_replicated;

CREATE TRIGGER after_account_change
    AFTER UPDATE OF email, status ON accounts
    FOR EACH ROW
    WHEN (
        NEW.email::text COLLATE "C" IS DISTINCT FROM OLD.email::text
        OR NEW.status::text IS DISTINCT FROM OLD.status::text
    )
    EXECUTE FUNCTION mailroom.trg_after_account_change();

CREATE TRIGGER after_accounts_deleted
    AFTER DELETE ON accounts
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT
    EXECUTE FUNCTION mailroom.trg_after_accounts_delete();

CREATE OR REPLACE TRIGGER after_token_inserted
    AFTER INSERT ON tokens
    REFERENCING NEW TABLE AS made
    FOR EACH STATEMENT
    EXECUTE FUNCTION mailroom.trg_after_tokens_insert();

DROP FUNCTION trg_after_token_inserted();

CREATE TRIGGER before_token_consumed
    BEFORE UPDATE OF consumed_at ON tokens
    FOR EACH ROW
    WHEN (OLD.consumed_at IS NULL AND NEW.consumed_at IS NOT NULL)
    EXECUTE FUNCTION mailroom.trg_before_token_consumed();

CREATE OR REPLACE TRIGGER after_token_consumed
    AFTER UPDATE OF consumed_at ON tokens
    FOR EACH ROW
    WHEN (OLD.consumed_at IS NULL AND NEW.consumed_at IS NOT NULL)
    EXECUTE FUNCTION mailroom.trg_after_token_consumed();

DROP FUNCTION trg_after_token_consumed();

CREATE TRIGGER after_token_redeemed
    AFTER UPDATE OF consumed_at ON mailroom.issued_tokens
    FOR EACH ROW
    WHEN (OLD.consumed_at IS NULL AND NEW.consumed_at IS NOT NULL)
    EXECUTE FUNCTION mailroom.trg_after_token_redeemed();

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

CREATE TRIGGER after_tokens_deleted
    AFTER DELETE ON tokens
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT
    EXECUTE FUNCTION mailroom.trg_after_tokens_delete();

CREATE TRIGGER after_tokens_truncated
    AFTER TRUNCATE ON tokens
    FOR EACH STATEMENT
    EXECUTE FUNCTION mailroom.trg_after_tokens_truncate();

-- Goes back to the base schema, but for what nobody can miss: columns that hold times stay 64 bits
-- wide, repaired codes stay, and two indexes that nobody reads are not built again (README.md says
-- how).
--
-- The cursor stands before the first token that still waits or is on its way. Tokens after it that
-- were sent already go out again, if they can still be used; a notice says how many. What was given
-- up does, too. Tokens that were cancelled are deleted. Consuming is the application's own UPDATE
-- again, codes become guessable, and whoever registers somebody needs INSERT on tokens and USAGE on
-- the sequence tokens_id_seq: grant them before, or registrations fail. Fails while a token can be
-- used that is bound to a browser.
--
-- Locks: nobody reads or writes accounts and tokens while the rows of those that can still be used
-- or sent are deleted from mailroom.issued_tokens; the others went before, with catch_up.

BEGIN;

-- Ends an autovacuum, for which others would have to wait together with the locks below.
LOCK TABLE accounts, tokens IN SHARE UPDATE EXCLUSIVE MODE;

-- Collectors cannot claim or settle any more, and what they have not settled is sent again.
SELECT mailroom.lock_briefly('jobs', 'accounts', 'tokens', 'mailroom.queue', 'mailroom.leases');

-- What is left of tokens is looked up by primary key, however many tokens there are. Such plans are
-- priced so high that the server would compile them, which takes longer than they do.
SET LOCAL jit = off;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off;
SET LOCAL enable_seqscan = off;

DROP TRIGGER after_accounts_deleted ON accounts;
DROP TRIGGER after_account_change ON accounts;
DROP TRIGGER after_tokens_truncated ON tokens;
DROP TRIGGER after_tokens_deleted ON tokens;
DROP TRIGGER after_token_redeemed ON mailroom.issued_tokens;
DROP TRIGGER after_token_consumed ON tokens;
DROP TRIGGER before_token_consumed ON tokens;
DROP TRIGGER after_token_inserted ON tokens;
DROP TRIGGER after_account_replicated ON accounts;
DROP TRIGGER after_account_insert ON accounts;

-- Deleted, not used: using an activation activates.
WITH ended AS (
    DELETE FROM tokens USING mailroom.issued_tokens AS known
    WHERE known.id = tokens.id AND known.cancelled_at IS NOT NULL
    RETURNING tokens.id
)
DELETE FROM mailroom.issued_tokens USING ended WHERE issued_tokens.id = ended.id;

DO $$
DECLARE
    epoch bigint := floor(extract(epoch FROM clock_timestamp()));
    first_owed bigint;
    again bigint;
BEGIN
    -- OFFSET 0 keeps the plan from beginning with all tokens.
    IF EXISTS (
        SELECT FROM (SELECT id FROM mailroom.issued_tokens WHERE binding IS NOT NULL OFFSET 0)
            AS bound JOIN tokens USING (id)
        WHERE tokens.consumed_at IS NULL AND tokens.expires_at > epoch
    ) THEN
        RAISE EXCEPTION
            'a token that is bound to a browser can still be used, and would be sent for any; '
            'wait until it has expired'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;

    SELECT min(id) INTO first_owed
    FROM tokens
    JOIN (
        SELECT token FROM mailroom.queue WHERE deferrals = 0
        UNION ALL
        SELECT pg_catalog.unnest(leases.tokens) FROM mailroom.leases
    ) AS queued ON queued.token = tokens.id
    WHERE consumed_at IS NULL AND expires_at > epoch;

    -- Where the cursor stood, if what it owed was not taken over to the end.
    UPDATE jobs
    SET last_seq = least(
        coalesce(first_owed - 1, (SELECT max(id) FROM tokens), 0),
        (SELECT adopted_after FROM mailroom.installation WHERE adopts_through > 0)
    );

    SELECT count(*) INTO again
    FROM tokens
    WHERE id >= first_owed
        AND consumed_at IS NULL
        AND expires_at > epoch
        AND NOT EXISTS (SELECT FROM mailroom.queue WHERE token = id AND attempts = 0);

    RAISE NOTICE '% tokens may be sent again', again;

    -- What stays in mailroom.issued_tokens has ids of the other sequence.
    PERFORM setval('mailroom.issued_tokens_id_seq'::regclass,
        (SELECT max(id) FROM mailroom.issued_tokens));
END;
$$;

DELETE FROM mailroom.queue USING tokens WHERE queue.token = tokens.id;
DELETE FROM mailroom.dead_letters USING tokens WHERE dead_letters.token = tokens.id;
DELETE FROM mailroom.handed_over USING tokens WHERE handed_over.token = tokens.id;
DELETE FROM mailroom.leases
WHERE EXISTS (
    SELECT FROM pg_catalog.unnest(leases.tokens) AS held (id) JOIN tokens USING (id)
        WHERE expires_at::numeric > extract(epoch FROM clock_timestamp())
);
DELETE FROM mailroom.issued_tokens AS known USING tokens WHERE known.id = tokens.id;

UPDATE mailroom.actions SET eligibility = NULL
WHERE eligibility IN ('mailroom.provisioned_accounts(text[],boolean)',
    'mailroom.active_accounts(text[],boolean)');

DROP FUNCTION mailroom.prune_account_tokens(timestamptz, bigint, integer);
DROP FUNCTION mailroom.request(text, text, interval, integer, interval, bytea, text);
DROP FUNCTION mailroom.trg_after_accounts_delete();
DROP FUNCTION mailroom.trg_after_account_change();
DROP FUNCTION mailroom.trg_after_tokens_truncate();
DROP FUNCTION mailroom.trg_after_tokens_delete();
DROP FUNCTION mailroom.trg_after_token_redeemed();
DROP FUNCTION mailroom.trg_after_token_consumed();
DROP FUNCTION mailroom.trg_before_token_consumed();
DROP FUNCTION mailroom.trg_after_tokens_insert();
DROP FUNCTION mailroom.binding_setting();
DROP FUNCTION mailroom.trg_after_account_replicated();
DROP FUNCTION mailroom.trg_after_accounts_insert();

CREATE OR REPLACE FUNCTION mailroom.check_without_calls(places tid[], expiry_bound bigint,
    signable smallint[], binds boolean) RETURNS SETOF mailroom.checked_candidate
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT checked.*
    FROM mailroom.candidates(places) AS locked
    CROSS JOIN LATERAL mailroom.check_candidate(locked, NULL, NULL, 'must be asked', expiry_bound,
        signable, binds) AS checked;
END;

DROP FUNCTION mailroom.active_accounts(text[], boolean);
DROP FUNCTION mailroom.provisioned_accounts(text[], boolean);
DROP VIEW mailroom.adopted_tokens;
DROP VIEW mailroom.adopted_accounts;

CREATE OR REPLACE FUNCTION mailroom.next_token_id() RETURNS bigint
LANGUAGE sql VOLATILE
RETURN nextval('mailroom.issued_tokens_id_seq'::regclass);

ALTER TABLE mailroom.installation DROP COLUMN adopted_after, DROP COLUMN adopts_through;

-- The base schema, but for two indexes, which would have to be built under these locks.
DROP TRIGGER after_token_changed ON tokens;
DROP FUNCTION trg_after_token_changed();

ALTER TABLE tokens
    DROP CONSTRAINT tokens_code_five_digits,
    ALTER COLUMN code SET DEFAULT to_char(random() * 100000::double precision, 'FM00000');
ALTER TABLE tokens RESET (fillfactor);
ALTER TABLE accounts RESET (fillfactor);

DROP FUNCTION generate_token_code();

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

CREATE OR REPLACE FUNCTION trg_before_account_status_change() RETURNS trigger
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

COMMENT ON TABLE accounts IS NULL;
COMMENT ON COLUMN accounts.email IS NULL;
COMMENT ON COLUMN accounts.status IS NULL;
COMMENT ON COLUMN accounts.login IS NULL;
COMMENT ON COLUMN accounts.created_at IS NULL;
COMMENT ON COLUMN accounts.status_changed_at IS NULL;
COMMENT ON COLUMN accounts.activated_at IS NULL;
COMMENT ON COLUMN accounts.suspended_at IS NULL;
COMMENT ON COLUMN accounts.unsuspended_at IS NULL;
COMMENT ON CONSTRAINT accounts_email_key ON accounts IS NULL;
COMMENT ON CONSTRAINT accounts_login_key ON accounts IS NULL;
COMMENT ON TABLE tokens IS NULL;
COMMENT ON COLUMN tokens.action IS NULL;
COMMENT ON COLUMN tokens.secret IS NULL;
COMMENT ON COLUMN tokens.code IS NULL;
COMMENT ON COLUMN tokens.account IS NULL;
COMMENT ON COLUMN tokens.expires_at IS NULL;
COMMENT ON COLUMN tokens.consumed_at IS NULL;
COMMENT ON COLUMN tokens.created_at IS NULL;
COMMENT ON CONSTRAINT tokens_secret_key ON tokens IS NULL;
COMMENT ON CONSTRAINT tokens_account_fkey ON tokens IS NULL;
COMMENT ON INDEX tokens_account_fkey IS NULL;
COMMENT ON TABLE jobs IS NULL;
COMMENT ON COLUMN jobs.job_type IS NULL;
COMMENT ON COLUMN jobs.last_seq IS NULL;
COMMENT ON INDEX jobs_last_seq_type_idx IS NULL;
COMMENT ON FUNCTION trg_before_account_status_change() IS NULL;

COMMIT;

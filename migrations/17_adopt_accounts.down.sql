-- Goes back to the cursor, which stands before the first token that still waits or is on its way.
-- Tokens after it that were sent already go out again, if they can still be used; a notice says how
-- many. What was given up does, too. Tokens that were cancelled are deleted. Consuming is the
-- application's own UPDATE again. Fails while a token can be used that is bound to a browser.
--
-- Whoever registers somebody needs no right on tokens, as before.
--
-- Locks: nobody reads or writes accounts and tokens while the rows of those that can still be used
-- or sent are deleted from mailroom.issued_tokens; the others went before, with 18.

BEGIN;

-- Ends an autovacuum, for which others would have to wait together with the locks below.
LOCK TABLE accounts, tokens IN SHARE UPDATE EXCLUSIVE MODE;

LOCK TABLE jobs IN SHARE ROW EXCLUSIVE MODE;
LOCK TABLE accounts IN ACCESS EXCLUSIVE MODE;
LOCK TABLE tokens IN ACCESS EXCLUSIVE MODE;

-- Collectors cannot claim or settle any more, and what they have not settled is sent again.
LOCK TABLE mailroom.queue, mailroom.leases IN ACCESS EXCLUSIVE MODE;

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
DROP TRIGGER before_account_suspended ON accounts;
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
        SELECT unnest(leases.tokens) FROM mailroom.leases
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
    PERFORM setval('mailroom.issued_tokens_id_seq', (SELECT max(id) FROM mailroom.issued_tokens));
END;
$$;

DELETE FROM mailroom.queue USING tokens WHERE queue.token = tokens.id;
DELETE FROM mailroom.dead_letters USING tokens WHERE dead_letters.token = tokens.id;
DELETE FROM mailroom.leases
WHERE EXISTS (
    SELECT FROM unnest(leases.tokens) AS held (id) JOIN tokens USING (id)
        WHERE expires_at > extract(epoch FROM clock_timestamp())
);
DELETE FROM mailroom.issued_tokens AS known USING tokens WHERE known.id = tokens.id;

UPDATE mailroom.actions SET eligibility = NULL
WHERE eligibility IN ('mailroom.provisioned_accounts(text[],boolean)',
    'mailroom.active_accounts(text[],boolean)');

DROP FUNCTION mailroom.prune_account_tokens(timestamptz, bigint, integer);
DROP FUNCTION mailroom.request(text, text, interval, integer, interval, bytea);
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
DROP FUNCTION mailroom.trg_before_account_suspended();
DROP FUNCTION mailroom.trg_after_accounts_insert();

CREATE OR REPLACE FUNCTION mailroom.judge_without_calls(places tid[], too_late bigint,
    signable smallint[], binds boolean) RETURNS SETOF mailroom.judgement
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT judged.*
    FROM mailroom.candidates(places) AS picked
    CROSS JOIN LATERAL mailroom.judge_candidate(picked, NULL, NULL, 'must be asked', too_late,
        signable, binds) AS judged;
END;

DROP FUNCTION mailroom.active_accounts(text[], boolean);
DROP FUNCTION mailroom.provisioned_accounts(text[], boolean);
DROP VIEW mailroom.adopted_tokens;
DROP VIEW mailroom.adopted_accounts;

CREATE OR REPLACE FUNCTION mailroom.next_token_id() RETURNS bigint
LANGUAGE sql VOLATILE
RETURN nextval('mailroom.issued_tokens_id_seq'::regclass);

ALTER TABLE mailroom.installation DROP COLUMN adopted_after, DROP COLUMN adopts_through;
ALTER TABLE tokens RESET (fillfactor);
ALTER TABLE accounts RESET (fillfactor);

COMMENT ON INDEX accounts_id_status_idx IS
    'Serves the collector: whether a token''s account has the status '
    'that its action needs, by index alone.';
COMMENT ON COLUMN jobs.last_seq IS 'Id of the last token that was handed over; 0 before the first.';

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

DO $$
DECLARE
    home name := (
        SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE pg_class.oid = 'tokens'::regclass
    );
    trigger_function text;
BEGIN
    FOREACH trigger_function IN ARRAY ARRAY[
        'trg_after_account_insert', 'trg_after_token_inserted', 'trg_after_token_consumed'
    ] LOOP
        EXECUTE format('ALTER FUNCTION %I() SET search_path = pg_catalog, %I, pg_temp',
            trigger_function, home);
    END LOOP;
END;
$$;

REVOKE ALL ON FUNCTION trg_after_account_insert() FROM PUBLIC;

COMMENT ON FUNCTION trg_after_account_insert() IS
    'Gives a provisioned account its activation token, in the same transaction and with the rights '
    'of this function''s owner.';
COMMENT ON FUNCTION trg_after_token_inserted() IS
    'Notifies token_insert, with an empty payload so that a transaction sends one notification.';
COMMENT ON FUNCTION trg_after_token_consumed() IS
    'Activates a provisioned account whose activation token was used.';

CREATE TRIGGER after_account_insert
    AFTER INSERT ON accounts
    FOR EACH ROW
    WHEN (NEW.status::text = 'provisioned')
    EXECUTE FUNCTION trg_after_account_insert();

CREATE TRIGGER after_token_inserted
    AFTER INSERT ON tokens
    FOR EACH ROW
    EXECUTE FUNCTION trg_after_token_inserted();

CREATE TRIGGER after_token_consumed
    AFTER UPDATE OF consumed_at ON tokens
    FOR EACH ROW
    WHEN (OLD.consumed_at IS NULL AND NEW.consumed_at IS NOT NULL)
    EXECUTE FUNCTION trg_after_token_consumed();

COMMIT;

-- Accounts that change or are deleted.

-- With the rights of its owner, because whoever changes an account needs none on the queue. Like a
-- redemption it locks the account before its tokens.
CREATE FUNCTION mailroom.trg_after_account_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Letters of another case are another address: only its mail server knows whether they reach
    -- the same person.
    IF NEW.email::text COLLATE "C" IS DISTINCT FROM OLD.email::text THEN
        PERFORM mailroom.cancel_subject(NEW.id::text, true);

        -- To an address that was confirmed once. Another spelling of it is no change for whoever
        -- reads its mails.
        IF OLD.status::text <> 'provisioned'
            AND mailroom.normal_address(OLD.email::text) IS DISTINCT
                FROM mailroom.normal_address(NEW.email::text)
        THEN
            PERFORM mailroom.notify(
                notice, OLD.email::text, NEW.login::text, NEW.id::text,
                (SELECT language FROM mailroom.adopted_accounts WHERE id = NEW.id), 'email_changed'
            )
            FROM mailroom.actions
            WHERE name = 'change_email' AND notice IS NOT NULL;
        END IF;
    END IF;

    IF NEW.status::text IS DISTINCT FROM OLD.status::text THEN
        PERFORM mailroom.recheck(NEW.id::text);
    END IF;

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION mailroom.trg_after_account_change() IS
    'Cancels the tokens that were made for the account''s former address, writes to that one if '
    'the action change_email has a notice, and has those looked at again that wait for its status.';

CREATE FUNCTION mailroom.trg_after_accounts_delete() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    subjects text[] := ARRAY(SELECT id::text FROM gone);
    ids bigint[];
BEGIN
    -- In the order in which whoever locks tokens does so: all at once, though their rows in the
    -- accounts' table of tokens go first, and some belong to subjects of other tables.
    PERFORM FROM mailroom.issued_tokens AS tokens
    WHERE subject_id = ANY (subjects)
    ORDER BY id + 0
    FOR UPDATE;

    -- Not those of actions for subjects of other tables, which may have the same ids.
    ids := ARRAY(
        SELECT tokens.id
        FROM mailroom.issued_tokens AS tokens
        JOIN mailroom.actions ON number = action
        WHERE subject_id = ANY (subjects)
            AND (action IN (1, 2) OR eligibility IN (
                'mailroom.provisioned_accounts(text[],boolean)',
                'mailroom.active_accounts(text[],boolean)'))
    );

    PERFORM mailroom.withdraw(ids, 'its account was deleted');
    DELETE FROM mailroom.issued_tokens AS tokens WHERE id = ANY (ids);
    DELETE FROM mailroom.code_failures WHERE subject = ANY (subjects);
    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION mailroom.trg_after_accounts_delete() IS
    'Takes the tokens of accounts that are gone out of the queue, and forgets how many wrong codes '
    'were entered for them.';

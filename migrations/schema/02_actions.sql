-- Actions: what a mail is for.

CREATE TABLE mailroom.actions (
    number smallint NOT NULL,
    name text NOT NULL,
    path text,
    code_digits smallint NOT NULL DEFAULT 0,
    lifetime interval NOT NULL DEFAULT '15 minutes',
    cooldown interval NOT NULL DEFAULT '60 seconds',
    priority smallint NOT NULL DEFAULT 1,
    proves_address boolean NOT NULL DEFAULT false,
    eligibility text,
    is_retired boolean NOT NULL DEFAULT false,
    notice text,
    code_notice text,

    CONSTRAINT actions_pkey PRIMARY KEY (number),
    CONSTRAINT actions_name_key UNIQUE (name),
    CONSTRAINT actions_path_key UNIQUE (path),
    CONSTRAINT actions_number CHECK (number BETWEEN 1 AND 127),
    CONSTRAINT actions_name CHECK (
        name ~ '^[a-z][a-z0-9_]{0,31}$'
        AND (number <= 2 OR name NOT IN ('activation', 'password_recovery'))
    ),
    CONSTRAINT actions_path CHECK (
        path ~ '^(/[A-Za-z0-9._~-]+)+$' AND path !~ '/[.][.]?(/|$)' AND length(path) <= 255
    ),
    CONSTRAINT actions_code CHECK (code_digits IN (0, 5, 6, 7, 8)
        AND (code_digits = 0 OR path IS NOT NULL)),
    CONSTRAINT actions_lifetime CHECK (lifetime BETWEEN '1 minute' AND '366 days'),
    CONSTRAINT actions_cooldown CHECK (cooldown BETWEEN '0 seconds' AND '1 day'),
    CONSTRAINT actions_priority CHECK (priority IN (0, 1))
);

COMMENT ON TABLE mailroom.actions IS
    'What a mail is for. Add a row for an action of your own; numbers 1 and 2 are Mailroom''s.';
COMMENT ON COLUMN mailroom.actions.number IS
    'What a token of v2 or v3 carries; the same wherever its tokens are verified.';
COMMENT ON COLUMN mailroom.actions.name IS
    'What enqueue() and redeem() call it, and the sender is told.';
COMMENT ON COLUMN mailroom.actions.path IS 'Path of the link; null for a mail without a link.';
COMMENT ON COLUMN mailroom.actions.code_digits IS
    'Digits of the code that is typed beside the link, 5 to 8; 0 for none.';
COMMENT ON COLUMN mailroom.actions.lifetime IS 'How long its tokens can be used.';
COMMENT ON COLUMN mailroom.actions.cooldown IS
    'Shortest time between two tokens that are requested for one account.';
COMMENT ON COLUMN mailroom.actions.priority IS
    '0 for what somebody waits for, 1 for the rest; 1 gets every seventh place at least.';
COMMENT ON COLUMN mailroom.actions.proves_address IS
    'Whether using the link proves that the subject has its present address. Then a token ends '
    'when the address changes.';
COMMENT ON COLUMN mailroom.actions.eligibility IS
    'Who may get and use its mails: a SECURITY DEFINER function of (subject_ids text[], '
    'is_redemption boolean) that returns rows (subject_id text, email text, name text) for those '
    'who may, with what they are called now. For a redemption it locks them. Null: everybody may. '
    'Its name, since pg_upgrade refuses columns with its oid.';
COMMENT ON COLUMN mailroom.actions.is_retired IS
    'Whether no more tokens of it are made; those that exist stay good.';
COMMENT ON COLUMN mailroom.actions.notice IS
    'Name of the action, one without a path, whose mail says that a token of this one was used. It '
    'goes to the token''s notice_recipient or, where this action proves the address, to the '
    'address of the token. Null: there is no such mail.';
COMMENT ON COLUMN mailroom.actions.code_notice IS
    'Name of the action, one without a path, whose mail says that a hundred wrong codes or more '
    'were typed for the subject, once a day at most. Null: there is no such mail.';
COMMENT ON CONSTRAINT actions_name_key ON mailroom.actions IS 'Serves enqueue() and redeem().';
COMMENT ON CONSTRAINT actions_path_key ON mailroom.actions IS 'A link is for one thing.';

INSERT INTO mailroom.actions (number, name, path, code_digits, lifetime, priority, proves_address)
VALUES
    (1, 'activate', '/activate', 0, '15 minutes', 1, true),
    (2, 'recover', '/recover', 5, '15 minutes', 0, true),
    (3, 'change_email', '/change-email', 0, '1 hour', 0, false),
    (4, 'invite', '/invite', 0, '7 days', 1, false),
    (5, 'sign_in', '/sign-in', 6, '15 minutes', 0, true),
    (6, 'notice', NULL, 0, '1 day', 1, false);

-- A query of pg_proc reads the catalogue as the transaction sees it, and a call takes what was
-- committed last, which is another function where the transaction's snapshot is older: then one
-- that runs with the rights of Mailroom's owner. What pg_get_functiondef returns is what a call
-- takes. The line of options is taken word by word, and quotes are counted, because a name, a
-- default, a setting or a body may contain what is looked for. One literal, which needs no
-- function to be joined, so that calls of this are inlined: each redemption has three.
CREATE FUNCTION mailroom.is_definer(definition text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN definition ~ (
    '^CREATE OR REPLACE FUNCTION [^"''\n]*("[^"]*"[^"''\n]*)*\n'
    ' RETURNS [^"''\n]*\n'
    '( TRANSFORM [^"''\n]*\n)?'
    ' LANGUAGE [^"''\n]*\n'
    '( WINDOW)?( IMMUTABLE| STABLE)?( PARALLEL SAFE| PARALLEL RESTRICTED)?( STRICT)?'
    ' SECURITY DEFINER( [^"''\n]*)?\n'
);

COMMENT ON FUNCTION mailroom.is_definer(text) IS
    'Whether the statement that makes a function makes it SECURITY DEFINER.';

-- Types too: a value of another one would be cast to text, by a cast that the function's owner may
-- have made, which would run with the rights of Mailroom's owner.
CREATE FUNCTION mailroom.is_predicate(candidate oid) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
BEGIN
    RETURN CASE
        WHEN EXISTS (
            SELECT FROM pg_proc
            WHERE oid = candidate
                AND prokind = 'f'
                AND prosecdef
                AND proretset
                AND proallargtypes = ARRAY[
                    'text[]'::regtype, 'boolean'::regtype, 'text'::regtype, 'text'::regtype,
                    'text'::regtype
                ]::oid[]
                AND proargmodes IN ('{i,i,t,t,t}', '{i,i,o,o,o}')
                AND proargnames[3:] = '{subject_id,email,name}'
        )
        THEN mailroom.is_definer(pg_get_functiondef(candidate))
        ELSE false
    END;
END;
$$;

COMMENT ON FUNCTION mailroom.is_predicate(oid) IS
    'Whether a function can be asked who is eligible: SECURITY DEFINER, of (text[], boolean), with '
    'rows of three texts.';

-- Whoever waits behind its lock waits no longer than a second.
CREATE FUNCTION mailroom.trg_before_action_change() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '1s' AS $$
DECLARE
    fault text;
    named text;
    predicate regprocedure;
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        RAISE EXCEPTION 'actions cannot be truncated'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;

    IF TG_OP <> 'INSERT'
        AND (OLD.number, OLD.name, OLD.path, OLD.code_digits) IS DISTINCT
            FROM (NEW.number, NEW.name, NEW.path, NEW.code_digits)
    THEN
        -- Waits for every transaction that has read the table for a token, and lets no other read
        -- it: afterwards all tokens that were made of the action are committed and can be seen. The
        -- triggers that make tokens of accounts need not wait: their actions cannot be changed.
        BEGIN
            LOCK TABLE mailroom.actions IN ACCESS EXCLUSIVE MODE;
        EXCEPTION WHEN lock_not_available THEN
            RAISE EXCEPTION
                'the action % cannot be changed: another transaction has read mailroom.actions '
                'for longer than a second', OLD.name
                USING ERRCODE = 'lock_not_available',
                    HINT = 'Repeat it when that transaction, such as pg_dump or a prepared one, '
                        'has ended; pg_locks shows it.';
        END;

        fault := CASE
            WHEN OLD.number IN (1, 2) THEN 'it is one of Mailroom''s own'
            WHEN current_setting('transaction_isolation') NOT IN ('read committed',
                'read uncommitted') THEN
                'in a transaction of this isolation level it may have tokens that are not seen'
            WHEN EXISTS (SELECT FROM mailroom.issued_tokens AS tokens WHERE action = OLD.number)
                THEN 'it has tokens'
            -- Otherwise enqueue() would answer its old tokens for the keys of its successor.
            WHEN EXISTS (SELECT FROM mailroom.idempotency_keys WHERE action = OLD.number)
                THEN 'its idempotency keys are not forgotten yet'
            WHEN EXISTS (
                SELECT FROM mailroom.actions AS other
                WHERE OLD.name IN (other.notice, other.code_notice) AND other.number <> OLD.number
            ) THEN 'it is the notice of another action'
        END;
    END IF;

    IF fault IS NOT NULL AND TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'the action % cannot be deleted: %', OLD.name, fault
            USING ERRCODE = 'integrity_constraint_violation',
                HINT = 'Retire it by is_retired; of a notice set notice and code_notice of the '
                    'others to null before.';
    ELSIF fault IS NOT NULL THEN
        RAISE EXCEPTION 'number, name, path and code_digits of the action % cannot be changed: %',
            OLD.name, fault
            USING ERRCODE = 'integrity_constraint_violation',
                HINT = 'Retire it by is_retired, and add an action with another number, name and '
                    'path.';
    END IF;

    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;

    -- Not a foreign key, whose check would lock the row: a mark that enqueue() takes for a change.
    FOREACH named IN ARRAY array_remove(ARRAY[NEW.notice, NEW.code_notice], NULL) LOOP
        IF NOT EXISTS (
            SELECT FROM mailroom.actions AS other
            WHERE other.name = named AND other.path IS NULL AND other.number <> NEW.number
        ) THEN
            RAISE EXCEPTION 'the notice of the action % is not an action without a path', NEW.name
                USING ERRCODE = 'invalid_parameter_value',
                    HINT = 'Notices have no links: name an action whose path is null, such as '
                        '''notice''.';
        END IF;
    END LOOP;

    BEGIN
        predicate := to_regprocedure(NEW.eligibility);
    EXCEPTION WHEN invalid_text_representation THEN
        -- Without the types of its arguments, of which the hint below tells.
        predicate := NULL;
    END;

    -- Anything else would run with the rights of Mailroom's owner.
    IF NEW.eligibility IS NOT NULL AND mailroom.is_predicate(predicate::oid) IS NOT TRUE THEN
        RAISE EXCEPTION
            'the eligibility of the action % is not a SECURITY DEFINER function of (text[], '
            'boolean) that returns rows'
            ' (subject_id text, email text, name text)', NEW.name
            USING ERRCODE = 'invalid_parameter_value',
                HINT = 'CREATE FUNCTION ...(subject_ids text[], is_redemption boolean) RETURNS '
                    'TABLE (subject_id text, email text, name text) ... SECURITY DEFINER. It then '
                    'runs with the rights of its own owner. Name it with its schema and the types '
                    'of its arguments.';
    END IF;

    -- With its schema, wherever that is found.
    NEW.eligibility := predicate::text;
    RETURN NEW;
END;
$$;

COMMENT ON FUNCTION mailroom.trg_before_action_change() IS
    'Keeps what links and verifiers know of an action, actions that have tokens or are notices, '
    'and functions of eligibility from running with the rights of Mailroom''s owner.';

CREATE TRIGGER before_action_change
    BEFORE INSERT OR UPDATE OR DELETE ON mailroom.actions
    FOR EACH ROW
    EXECUTE FUNCTION mailroom.trg_before_action_change();

CREATE TRIGGER before_actions_truncate
    BEFORE TRUNCATE ON mailroom.actions
    FOR EACH STATEMENT
    EXECUTE FUNCTION mailroom.trg_before_action_change();

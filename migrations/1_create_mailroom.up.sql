-- `cargo xtask schema` writes this file from those of schema/: change those.
--
-- Makes the schema `mailroom`.
--
-- Locks: new tables only.

BEGIN;

-- The schema `mailroom`: mails with one-time links to the people of any table. An application
-- enqueues a mail in its own transaction; nothing in this schema refers to a table outside of it.
--
-- Queue in, log out: where a token stands is where its row is, in one of `queue`, `leases`,
-- `handed_over` and `dead_letters`, or in none of them when it is done. The secret is in that row
-- and nowhere else, so that it is gone when the mail is sent. What happened is appended to
-- `delivery_log`.
--
-- Functions that others may call run with the rights of their owner, so that nobody needs rights on
-- the tables. Nothing on a caller's search path can step in for a name in them: it is set to
-- pg_catalog, and Mailroom's own names have their schema. Polymorphic functions, for which one for
-- exactly these types would be a better match, are named with their schema.
--
-- Plans must not depend on how full the tables were when they were planned: functions that look
-- rows up switch off what would read a whole table, since an index is right in every case.

SET LOCAL client_min_messages = warning;
-- Functions and operators are PostgreSQL's own here, whatever is on the caller's path.
SET LOCAL search_path = pg_catalog, pg_temp;

-- Whoever may not create schemas can be given one; IF NOT EXISTS asks for the right all the same.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'mailroom') THEN
        CREATE SCHEMA mailroom;
    END IF;
END;
$$;

-- What is in it has rights of its own. Whoever may make something in it can put a function beside
-- one of Mailroom's that fits a call better, so that nobody keeps that right: neither by default
-- privileges nor from whoever made the schema.
DO $$
DECLARE
    revocation text;
BEGIN
    FOR revocation IN
        SELECT format(
            'REVOKE ALL ON SCHEMA mailroom FROM %s CASCADE',
            CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END
        )
        FROM pg_namespace CROSS JOIN LATERAL aclexplode(nspacl)
        WHERE nspname = 'mailroom'
            AND pg_has_role(nspowner, 'USAGE')
            AND CASE grantee WHEN 0 THEN true ELSE NOT pg_has_role(grantee, nspowner, 'MEMBER') END
        GROUP BY grantee
    LOOP
        EXECUTE revocation;
    END LOOP;
END;
$$;

GRANT USAGE ON SCHEMA mailroom TO PUBLIC;

COMMENT ON SCHEMA mailroom IS
    'Mailroom: mails with one-time links, from their request to their hand-over to a sender.';

-- The only clock of the queue. A function, so that a test can turn it: collectors have no say in
-- what time it is.
CREATE FUNCTION mailroom.clock() RETURNS timestamptz
LANGUAGE sql VOLATILE
RETURN clock_timestamp();

COMMENT ON FUNCTION mailroom.clock() IS 'What time it is for the queue.';

-- Null where this may not be asked: such a queue is bound to no cluster.
CREATE FUNCTION mailroom.cluster_identifier() RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT system_identifier FROM pg_catalog.pg_control_system());
EXCEPTION WHEN insufficient_privilege THEN
    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION mailroom.cluster_identifier() IS
    'What tells this cluster from others, but not from its physical copies; '
    'null if its owner may not know.';

-- Called at the end of each step, whose objects are those that its transaction has made. A part of
-- it that can be rolled back alone, as psql's ON_ERROR_ROLLBACK and the exception block of an event
-- trigger make one, writes with an id of its own, which is younger than the transaction's. The
-- program executes this body for the base schema and for the table that records steps, too.
CREATE FUNCTION mailroom.revoke_default_privileges() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    revocation text;
BEGIN
    FOR revocation IN
        SELECT format(
            'REVOKE ALL ON %s %s FROM %s',
            made.kind, made.name, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END
        )
        FROM (
            SELECT 'ROUTINE', pg_proc.oid::regprocedure::text, proowner, proacl
            FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace
            WHERE nspname = 'mailroom' AND age(pg_proc.xmin) <= 0
            UNION ALL
            SELECT
                CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
                pg_class.oid::regclass::text, relowner, relacl
            FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
            WHERE nspname = 'mailroom'
                AND relkind IN ('r', 'v', 'S')
                -- Not by its row in pg_class, which is written anew where a table is altered: that
                -- one keeps the rights that it has. The row of its type and, of a sequence, those
                -- of its columns are not.
                AND (
                    EXISTS (SELECT FROM pg_type WHERE pg_type.oid = reltype
                        AND age(pg_type.xmin) <= 0)
                    OR relkind = 'S'
                    AND EXISTS (
                        SELECT FROM pg_attribute
                        WHERE attrelid = pg_class.oid AND attnum = 1
                            AND age(pg_attribute.xmin) <= 0
                    )
                )
        ) AS made (kind, name, owner, acl)
        CROSS JOIN LATERAL aclexplode(made.acl)
        -- What everybody may call has no rights of its owner, or is revoked beside it.
        WHERE grantee <> made.owner AND (grantee <> 0::oid OR made.kind <> 'ROUTINE')
    LOOP
        EXECUTE revocation;
    END LOOP;
END;
$$;

COMMENT ON FUNCTION mailroom.revoke_default_privileges() IS
    'Takes back what ALTER DEFAULT PRIVILEGES gives others of what this transaction has made, as '
    'on hosted servers.';

-- Called after it, for whatever an event trigger or a client has granted meanwhile. By itself: the
-- program executes that body also before this schema is made.
CREATE FUNCTION mailroom.refuse_public_definers() RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    everybodys text := (
        SELECT string_agg(pg_proc.oid::regprocedure::text, ', ')
        FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace
        WHERE nspname = 'mailroom'
            AND prosecdef
            AND pg_has_role(proowner, 'USAGE')
            AND has_function_privilege('public'::name, pg_proc.oid, 'EXECUTE')
    );
BEGIN
    IF everybodys IS NOT NULL THEN
        RAISE EXCEPTION 'everybody may execute %', everybodys
            USING ERRCODE = 'insufficient_privilege',
                HINT = 'These run with the rights of their owner. REVOKE EXECUTE ON ALL ROUTINES '
                    'IN SCHEMA mailroom FROM PUBLIC, find what grants it, and migrate again.';
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.refuse_public_definers() IS
    'For migrations: fails where everybody may execute a function that runs with the rights of its '
    'owner.';

-- For migrations. Others wait behind a lock that is waited for. So this waits for a tenth of a
-- second, lets all pass and tries again, for as long as lock_timeout allows, or five seconds. Those
-- who lock the tables in another order, as whoever uses a token locks it before its account, wait
-- no longer than that.
CREATE FUNCTION mailroom.lock_briefly(VARIADIC tables regclass[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    limit_of_all text := current_setting('lock_timeout');
    ends_at timestamptz := clock_timestamp()
        + CASE limit_of_all WHEN '0' THEN '5s' ELSE limit_of_all END::interval;
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '100ms', true);
            EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', array_to_string(tables, ', '));
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF clock_timestamp() > ends_at THEN
                RAISE;
            END IF;
        END;

        PERFORM pg_sleep(0.05 + 0.1 * random());
    END LOOP;

    PERFORM set_config('lock_timeout', limit_of_all, true);
END;
$$;

COMMENT ON FUNCTION mailroom.lock_briefly(regclass[]) IS
    'For migrations: locks tables exclusively, and lets others pass while it cannot.';

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

-- Tokens: who gets which, and what became of it, without their secrets.

CREATE TABLE mailroom.issued_tokens (
    id bigint GENERATED BY DEFAULT AS IDENTITY,
    action smallint NOT NULL,
    subject_id text,
    recipient_email text,
    recipient_name text,
    language text,
    consumed_id bytea NOT NULL,
    code_hash bytea,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    consumed_at bigint,
    cancelled_at bigint,
    binding bytea,
    has_payload boolean NOT NULL DEFAULT false,
    notice_recipient text,
    traceparent text,

    CONSTRAINT issued_tokens_pkey PRIMARY KEY (id),
    CONSTRAINT issued_tokens_consumed_id_key UNIQUE (consumed_id)
) WITH (
    fillfactor = 90,
    -- A fifth of what a retention of days leaves would be hundreds of millions of dead rows.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.05
);

CREATE INDEX issued_tokens_subject_id_idx ON mailroom.issued_tokens (subject_id);

COMMENT ON TABLE mailroom.issued_tokens IS
    'One-time tokens, without their secrets: who gets which, and what became of it.';
COMMENT ON COLUMN mailroom.issued_tokens.action IS
    'Number of the action that it is for. Not a foreign key, whose check takes long; a trigger of '
    'actions keeps those that have tokens.';
COMMENT ON COLUMN mailroom.issued_tokens.subject_id IS
    'Whose it is in the application''s own table, as text; null if nobody''s.';
COMMENT ON COLUMN mailroom.issued_tokens.recipient_email IS
    'Address that the mail goes to, as it was when the token was made. Null only where the account '
    'was made after its token.';
COMMENT ON COLUMN mailroom.issued_tokens.recipient_name IS 'What the mail calls the recipient.';
COMMENT ON COLUMN mailroom.issued_tokens.language IS
    'Language of the mail, as in BCP 47; null for the sender''s own choice.';
COMMENT ON COLUMN mailroom.issued_tokens.consumed_id IS
    'The first 16 bytes of SHA-256("mailroom/consumed", a zero byte, secret); '
    'tells nothing about the secret.';
COMMENT ON COLUMN mailroom.issued_tokens.code_hash IS
    'SHA-256("mailroom/code", a zero byte, secret, code), which nobody can try without the link; '
    'null where there is no code.';
COMMENT ON COLUMN mailroom.issued_tokens.created_at IS 'Seconds since the Unix epoch.';
COMMENT ON COLUMN mailroom.issued_tokens.expires_at IS
    'First second at which it is no longer valid, in seconds since the Unix epoch.';
COMMENT ON COLUMN mailroom.issued_tokens.consumed_at IS
    'When it was used, in seconds since the Unix epoch; null until then.';
COMMENT ON COLUMN mailroom.issued_tokens.cancelled_at IS
    'When it ended without being used, in seconds since the Unix epoch; null if it did not.';
COMMENT ON COLUMN mailroom.issued_tokens.binding IS
    'The browser that the link is for: the first 16 bytes of SHA-256("mailroom/browser", a zero '
    'byte, the nonce of its cookie). Null: any.';
COMMENT ON COLUMN mailroom.issued_tokens.has_payload IS
    'Whether it was made with a payload, so that claims look for one.';
COMMENT ON COLUMN mailroom.issued_tokens.notice_recipient IS
    'Address that notices of this token go to, such as the old one where it changes the address. '
    'Null: as actions says of notice.';
COMMENT ON COLUMN mailroom.issued_tokens.traceparent IS
    'The trace in which it was made, as traceparent() allows it; null if in none.';
COMMENT ON CONSTRAINT issued_tokens_consumed_id_key ON mailroom.issued_tokens IS
    'Serves redeeming, and finding the token that a consumed id in a log or a store belongs to.';
COMMENT ON INDEX mailroom.issued_tokens_subject_id_idx IS 'Serves cancelling what a subject has.';

CREATE FUNCTION mailroom.trg_before_token_change() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'action, secret, code and binding of token % cannot be changed', OLD.id
        USING ERRCODE = 'integrity_constraint_violation',
            HINT = 'Its mail may be signed already. Enqueue another one instead.';
END;
$$;

COMMENT ON FUNCTION mailroom.trg_before_token_change() IS
    'Keeps what a token''s link says of it: a link is never signed for another browser than '
    'before, nor for any.';

CREATE TRIGGER before_token_change
    BEFORE UPDATE OF action, consumed_id, code_hash, binding ON mailroom.issued_tokens
    FOR EACH ROW
    WHEN ((NEW.action, NEW.consumed_id, NEW.code_hash, NEW.binding) IS DISTINCT
        FROM (OLD.action, OLD.consumed_id, OLD.code_hash, OLD.binding))
    EXECUTE FUNCTION mailroom.trg_before_token_change();

CREATE TABLE mailroom.payloads (
    token bigint NOT NULL,
    payload jsonb NOT NULL,

    CONSTRAINT payloads_pkey PRIMARY KEY (token)
);

COMMENT ON TABLE mailroom.payloads IS
    'What the application says for the mail''s template, '
    'until the mail is sent or has become void.';
COMMENT ON COLUMN mailroom.payloads.token IS 'As in queue.';
COMMENT ON COLUMN mailroom.payloads.payload IS 'JSON, as payload_fault() allows it.';

CREATE TABLE mailroom.idempotency_keys (
    action smallint NOT NULL,
    key text NOT NULL,
    token bigint NOT NULL,
    digest bytea NOT NULL,
    expires_at bigint NOT NULL,
    subject_id text,

    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (action, key)
) WITH (
    -- As of issued_tokens, whose rows are pruned earlier.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.05
);

CREATE INDEX idempotency_keys_expires_at_idx ON mailroom.idempotency_keys (expires_at);

CREATE INDEX idempotency_keys_subject_id_idx ON mailroom.idempotency_keys (subject_id)
    WHERE subject_id IS NOT NULL;

COMMENT ON TABLE mailroom.idempotency_keys IS
    'Keys that enqueue() was called with, until 30 days after their tokens'' expiry, whatever '
    'becomes of the tokens.';
COMMENT ON COLUMN mailroom.idempotency_keys.action IS
    'Number of the action: each has its own keys.';
COMMENT ON COLUMN mailroom.idempotency_keys.key IS 'Of the application''s choice, 1 to 255 bytes.';
COMMENT ON COLUMN mailroom.idempotency_keys.token IS
    'The token that the first call made; it may have been deleted since.';
COMMENT ON COLUMN mailroom.idempotency_keys.digest IS 'SHA-256 of the other arguments.';
COMMENT ON COLUMN mailroom.idempotency_keys.expires_at IS
    'When it is forgotten, in seconds since the Unix epoch.';
COMMENT ON COLUMN mailroom.idempotency_keys.subject_id IS
    'As in issued_tokens, whose row is pruned earlier.';
COMMENT ON INDEX mailroom.idempotency_keys_expires_at_idx IS 'Serves pruning.';
COMMENT ON INDEX mailroom.idempotency_keys_subject_id_idx IS
    'Serves forget() and export_subject().';

-- How often codes were tried, and the digits that browsers show.

CREATE TABLE mailroom.code_attempts (
    token bigint NOT NULL,
    ordinal smallint NOT NULL,
    attempted_at bigint NOT NULL,
    is_other_browser boolean NOT NULL DEFAULT false,

    CONSTRAINT code_attempts_pkey PRIMARY KEY (token, is_other_browser, ordinal),
    CONSTRAINT code_attempts_token_fkey FOREIGN KEY (token) REFERENCES mailroom.issued_tokens (id)
        ON DELETE CASCADE,
    CONSTRAINT code_attempts_five_at_most CHECK (ordinal BETWEEN 1 AND 5)
);

COMMENT ON TABLE mailroom.code_attempts IS
    'Tries of the codes of tokens, right and wrong ones; rows are never changed, '
    'and go with their token.';
COMMENT ON COLUMN mailroom.code_attempts.token IS 'Token whose code was tried.';
COMMENT ON COLUMN mailroom.code_attempts.ordinal IS
    '1 for the first try of a token''s code; at most 5.';
COMMENT ON COLUMN mailroom.code_attempts.attempted_at IS 'Seconds since the Unix epoch.';
COMMENT ON COLUMN mailroom.code_attempts.is_other_browser IS
    'Whether it came from a browser that the link is not bound to. Such tries have numbers of '
    'their own, so that whoever has only the link takes none of those away '
    'that the bound browser has.';
COMMENT ON CONSTRAINT code_attempts_pkey ON mailroom.code_attempts IS
    'Serves redeeming: how often the code of a token was tried; no two tries have the same number.';

CREATE TABLE mailroom.code_failures (
    subject text NOT NULL,
    failures integer NOT NULL,
    rests_until bigint NOT NULL,
    is_other_browser boolean NOT NULL DEFAULT false,
    noticed_at bigint,

    CONSTRAINT code_failures_pkey PRIMARY KEY (subject, is_other_browser)
);

CREATE INDEX code_failures_rests_until_idx ON mailroom.code_failures (rests_until);

COMMENT ON TABLE mailroom.code_failures IS
    'How many wrong codes were entered in a row for a subject, over all of its tokens (NIST SP '
    '800-63B allows a hundred). A right code deletes the row, or ends the count of one that was '
    'noticed within a day; deleting tokens does not.';
COMMENT ON COLUMN mailroom.code_failures.subject IS
    'Subject id; the normal form of the address where a token has none.';
COMMENT ON COLUMN mailroom.code_failures.failures IS 'Wrong codes since the last right one.';
COMMENT ON COLUMN mailroom.code_failures.rests_until IS
    'Until then redeem() accepts no code for the subject and request() makes no token for it, of '
    'any action; in seconds since the Unix epoch. '
    'Before the hundredth wrong code the time of the last one.';
COMMENT ON COLUMN mailroom.code_failures.noticed_at IS
    'When the subject was told of wrong codes last, in seconds since the Unix epoch; of both '
    'browsers in the row whose is_other_browser is false.';
COMMENT ON INDEX mailroom.code_failures_rests_until_idx IS 'Serves pruning.';
COMMENT ON COLUMN mailroom.code_failures.is_other_browser IS
    'As in code_attempts: wrong codes entered in other browsers block only codes entered '
    'in other browsers.';

CREATE TABLE mailroom.browser_codes (
    binding bytea NOT NULL,
    code text NOT NULL,
    tries smallint NOT NULL DEFAULT 0,
    expires_at bigint NOT NULL,

    CONSTRAINT browser_codes_pkey PRIMARY KEY (binding),
    CONSTRAINT browser_codes_binding CHECK (octet_length(binding) = 16),
    CONSTRAINT browser_codes_five_at_most CHECK (tries BETWEEN 0 AND 5)
);

CREATE INDEX browser_codes_expires_at_idx ON mailroom.browser_codes (expires_at);

COMMENT ON TABLE mailroom.browser_codes IS
    'Digits that a browser shows, for using the links that are bound to it in another one. They '
    'are in no mail and in no token, and worth nothing without the link.';
COMMENT ON COLUMN mailroom.browser_codes.binding IS
    'The browser, as in issued_tokens; it need not have a token.';
COMMENT ON COLUMN mailroom.browser_codes.code IS 'Five digits.';
COMMENT ON COLUMN mailroom.browser_codes.tries IS
    'How often a code was entered in place of these digits, right or wrong; at most 5.';
COMMENT ON COLUMN mailroom.browser_codes.expires_at IS
    'A day after they were shown last, in seconds since the Unix epoch.';
COMMENT ON INDEX mailroom.browser_codes_expires_at_idx IS 'Serves pruning.';

-- Where a token stands: it waits, is on its way in a batch, or was given up.

CREATE TABLE mailroom.queue (
    token bigint NOT NULL,
    due_at timestamptz NOT NULL,
    put_off_at timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    failures smallint NOT NULL DEFAULT 0,
    deferrals smallint NOT NULL DEFAULT 0,
    priority smallint NOT NULL,
    secret bytea NOT NULL,
    code text,
    waits_since timestamptz,
    doubts smallint NOT NULL DEFAULT 0,

    CONSTRAINT queue_pkey PRIMARY KEY (token)
) WITH (
    -- Rows live for milliseconds. Vacuum comes after a number of dead ones, not after a share of a
    -- table that is mostly empty, and does not pause; it does not give the empty end of the file
    -- back either, for which it would lock registrations out.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 1000000,
    vacuum_truncate = false
);

CREATE INDEX queue_priority_due_at_idx ON mailroom.queue (priority, due_at);

COMMENT ON TABLE mailroom.queue IS
    'Tokens that wait to be sent. A row is inserted by the transaction that makes the token and '
    'deleted when it is claimed.';
COMMENT ON COLUMN mailroom.queue.token IS
    'The token. Not a foreign key, whose check would lock the token''s row; a row whose token is '
    'gone is cancelled when it is claimed.';
COMMENT ON COLUMN mailroom.queue.due_at IS
    'When it may be claimed: at once for a new token, later after a refusal. '
    'The oldest goes first.';
COMMENT ON COLUMN mailroom.queue.put_off_at IS
    'When it was put off until due_at: by a refusal, an outage, a subject who is not eligible, or '
    'a time that was asked for. Null for all others, '
    'which nothing but a clock that was set back keeps waiting.';
COMMENT ON COLUMN mailroom.queue.attempts IS 'How often it has been handed over.';
COMMENT ON COLUMN mailroom.queue.failures IS
    'How many of these count towards the most that there may be: those that ended or silenced the '
    'sender, and refusals where they are bounded.';
COMMENT ON COLUMN mailroom.queue.deferrals IS
    'How often in a row it was put off because its subject was not eligible, or its action cannot '
    'be signed. It is deferred while this is not 0.';
COMMENT ON COLUMN mailroom.queue.priority IS 'As in actions.';
COMMENT ON COLUMN mailroom.queue.secret IS
    '32 random bytes, which the signed link carries; whoever knows them has the token.';
COMMENT ON COLUMN mailroom.queue.code IS
    'Digits that the mail shows and the person types; null for none.';
COMMENT ON COLUMN mailroom.queue.waits_since IS
    'When it fell due first, if it came back since without a refusal of its own, because the '
    'sender was unavailable or failed, or if it is in doubt. Null: due_at.';
COMMENT ON COLUMN mailroom.queue.doubts IS
    'How many attempts ended in doubt: nobody knows whether the provider accepted the mail. While '
    'this is not 0, it may have been delivered, and is never ended as expired.';
COMMENT ON CONSTRAINT queue_pkey ON mailroom.queue IS
    'Serves coming back: a token waits once, however often it is put back.';
COMMENT ON INDEX mailroom.queue_priority_due_at_idx IS
    'Serves claiming: the oldest of each priority, from the time on before which nothing waits any '
    'more. What is due later lies behind, where no claim gets.';

-- Without a search path of its own, which would take as long as all the rest:
-- every name has its schema.
CREATE FUNCTION mailroom.trg_after_queue_insert() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    -- An idle collector holds this advisory lock exclusively, so the shared lock fails while a
    -- collector is idle or waits to be. A transaction that gets the shared lock keeps it until it
    -- ends, so a collector that becomes idle afterwards sees its row. While no collector is idle,
    -- no transaction notifies: notifications serialise commits in the whole server. The oid keeps
    -- apart the queues of databases.
    IF NOT pg_catalog.pg_try_advisory_xact_lock_shared(1835100524, TG_RELID::integer) THEN
        PERFORM pg_catalog.pg_notify('token_insert', '');
    END IF;

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION mailroom.trg_after_queue_insert() IS
    'Notifies token_insert if a collector is idle.';

CREATE TRIGGER after_queue_insert
    AFTER INSERT ON mailroom.queue
    FOR EACH STATEMENT
    EXECUTE FUNCTION mailroom.trg_after_queue_insert();

-- Its arrays have as many elements as there are tokens. A constraint that says so would be read and
-- compiled by every claim, which takes a tenth of a small one;
-- claim() makes them by one aggregation.
CREATE TABLE mailroom.leases (
    batch uuid NOT NULL,
    collector_id bigint NOT NULL,
    claimed_at timestamptz NOT NULL,
    renewed_at timestamptz NOT NULL,
    ends_at timestamptz NOT NULL,
    due_at timestamptz NOT NULL,
    tokens bigint[] NOT NULL,
    attempts integer[] NOT NULL,
    failures smallint[] NOT NULL,
    priorities smallint[] NOT NULL,
    secrets bytea[] NOT NULL,
    codes text[] NOT NULL,
    has_payloads boolean NOT NULL DEFAULT true,
    waits_since timestamptz[],
    doubts smallint[],

    CONSTRAINT leases_pkey PRIMARY KEY (batch)
) WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 1000000,
    vacuum_truncate = false
);

CREATE INDEX leases_ends_at_idx ON mailroom.leases (ends_at);

COMMENT ON TABLE mailroom.leases IS
    'Batches that were claimed and of which nothing is known yet. Whoever settles one deletes its '
    'row, and nobody can settle a batch whose row is gone.';
COMMENT ON COLUMN mailroom.leases.batch IS
    'The batch''s name, chosen at random by the collector before it claims.';
COMMENT ON COLUMN mailroom.leases.collector_id IS 'The collector, as in collectors.';
COMMENT ON COLUMN mailroom.leases.claimed_at IS 'When it was claimed.';
COMMENT ON COLUMN mailroom.leases.renewed_at IS 'When the collector said last that it has it.';
COMMENT ON COLUMN mailroom.leases.ends_at IS
    'When anybody may take it over. Put off as long as the collector lives.';
COMMENT ON COLUMN mailroom.leases.due_at IS
    'When the one of its tokens fell due that has waited longest. Tokens that come back unsent '
    'come back to this place in the queue, not to its end.';
COMMENT ON COLUMN mailroom.leases.tokens IS 'The tokens, in the order of the line.';
COMMENT ON COLUMN mailroom.leases.attempts IS
    'Of each token, the number of this delivery attempt, from 1.';
COMMENT ON COLUMN mailroom.leases.failures IS 'Of each token, as in queue.';
COMMENT ON COLUMN mailroom.leases.priorities IS 'Of each token, as in queue.';
COMMENT ON COLUMN mailroom.leases.secrets IS 'Of each token, as in queue.';
COMMENT ON COLUMN mailroom.leases.codes IS 'Of each token, as in queue.';
COMMENT ON COLUMN mailroom.leases.has_payloads IS
    'Whether any of its tokens has a payload, which is deleted when it is sent.';
COMMENT ON COLUMN mailroom.leases.waits_since IS
    'Of each token, as in queue, where it is not null there; else due_at of the queue.';
COMMENT ON COLUMN mailroom.leases.doubts IS 'Of each token, as in queue; null if no token has any.';
COMMENT ON INDEX mailroom.leases_ends_at_idx IS 'Serves taking over what has lapsed.';

CREATE TABLE mailroom.handed_over (
    token bigint NOT NULL,
    handed_over_at timestamptz NOT NULL,
    expires_at bigint NOT NULL,
    attempts integer NOT NULL,
    failures smallint NOT NULL,
    priority smallint NOT NULL,
    secret bytea,
    code text,
    doubts smallint NOT NULL DEFAULT 0,
    is_expired boolean NOT NULL DEFAULT false,

    CONSTRAINT handed_over_pkey PRIMARY KEY (token)
) WITH (
    -- As in queue: rows live for seconds.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 1000000,
    vacuum_truncate = false
);

CREATE INDEX handed_over_expires_at_idx ON mailroom.handed_over (is_expired, expires_at);

COMMENT ON TABLE mailroom.handed_over IS
    'Tokens whose mail a broker has stored, and of which no verdict has come yet. One that has '
    'expired so is listed by status() until it is pruned.';
COMMENT ON COLUMN mailroom.handed_over.token IS 'As in queue.';
COMMENT ON COLUMN mailroom.handed_over.handed_over_at IS 'When that was recorded.';
COMMENT ON COLUMN mailroom.handed_over.expires_at IS
    'As in issued_tokens, in seconds since the Unix epoch.';
COMMENT ON COLUMN mailroom.handed_over.attempts IS 'As in queue.';
COMMENT ON COLUMN mailroom.handed_over.failures IS 'As in queue.';
COMMENT ON COLUMN mailroom.handed_over.priority IS 'As in queue.';
COMMENT ON COLUMN mailroom.handed_over.secret IS
    'As in queue, so that a dead letter can be put back; null once the token has expired, or was '
    'used or cancelled.';
COMMENT ON COLUMN mailroom.handed_over.code IS 'As in queue; null with the secret.';
COMMENT ON COLUMN mailroom.handed_over.doubts IS 'As in queue.';
COMMENT ON COLUMN mailroom.handed_over.is_expired IS
    'Whether a collector has seen that it expired.';
COMMENT ON CONSTRAINT handed_over_pkey ON mailroom.handed_over IS
    'Serves verdicts: each takes away the row of its token.';
COMMENT ON INDEX mailroom.handed_over_expires_at_idx IS
    'Serves finding what has expired, and pruning what was found so.';

CREATE TABLE mailroom.dead_letters (
    token bigint NOT NULL,
    died_at timestamptz NOT NULL,
    expires_at bigint NOT NULL,
    attempts integer NOT NULL,
    failures smallint NOT NULL,
    priority smallint NOT NULL,
    secret bytea,
    code text,
    reason text NOT NULL,
    is_suppressed boolean NOT NULL DEFAULT false,
    doubts smallint NOT NULL DEFAULT 0,
    is_in_doubt boolean NOT NULL GENERATED ALWAYS AS (doubts > 0) STORED,

    CONSTRAINT dead_letters_pkey PRIMARY KEY (token)
);

CREATE INDEX dead_letters_expires_at_idx ON mailroom.dead_letters (expires_at)
    WHERE secret IS NOT NULL;

COMMENT ON TABLE mailroom.dead_letters IS
    'Tokens that were given up. Putting one back deletes its row, '
    'so that it goes out once however many do.';
COMMENT ON COLUMN mailroom.dead_letters.token IS 'As in queue.';
COMMENT ON COLUMN mailroom.dead_letters.died_at IS 'When it was given up.';
COMMENT ON COLUMN mailroom.dead_letters.expires_at IS
    'As in issued_tokens, in seconds since the Unix epoch.';
COMMENT ON COLUMN mailroom.dead_letters.attempts IS 'As in queue.';
COMMENT ON COLUMN mailroom.dead_letters.failures IS 'As in queue.';
COMMENT ON COLUMN mailroom.dead_letters.priority IS 'As in queue.';
COMMENT ON COLUMN mailroom.dead_letters.secret IS
    'As in queue; null once the token has expired, or was used or cancelled.';
COMMENT ON COLUMN mailroom.dead_letters.code IS 'As in queue; null with the secret.';
COMMENT ON COLUMN mailroom.dead_letters.reason IS
    'What the sender said last, why the row could not be written on a line, '
    'or why its address is suppressed.';
COMMENT ON COLUMN mailroom.dead_letters.is_suppressed IS
    'Whether it was given up because its address is suppressed: an expected end, of which no '
    'operator is alarmed.';
COMMENT ON COLUMN mailroom.dead_letters.doubts IS
    'As in queue; kept when it is put back, so that one more doubt makes it a dead letter again.';
COMMENT ON COLUMN mailroom.dead_letters.is_in_doubt IS
    'Whether it may have been delivered. Putting all dead letters back passes it over.';
COMMENT ON INDEX mailroom.dead_letters_expires_at_idx IS
    'Serves erasing the secrets of what has expired.';

-- What became of delivery attempts, and which addresses get no mails.

CREATE TYPE mailroom.outcome AS ENUM ('sent', 'retry', 'unanswered', 'lapsed', 'dead', 'expired',
    'cancelled', 'in_doubt', 'handed_over');

COMMENT ON TYPE mailroom.outcome IS
    'How a delivery attempt ended: sent; retry (refused for now); unanswered (no verdict, or the '
    'sender was unavailable); lapsed (the lease ended); in_doubt (nobody knows whether the '
    'provider accepted it); dead (refused for ever, too many failures or doubts, or no line can '
    'carry it); handed_over (a broker has stored it, for somebody else to send it). What became of '
    'that follows as sent, dead, expired or in_doubt, without a collector. Or why there was none: '
    'expired; cancelled (used, cancelled or deleted before); '
    'dead (its address is suppressed, or it expired and may have been delivered).';

CREATE TABLE mailroom.delivery_log (
    id bigint GENERATED BY DEFAULT AS IDENTITY,
    tokens bigint[] NOT NULL,
    happened_at timestamptz NOT NULL,
    collector_id bigint,
    batch uuid,
    attempt integer NOT NULL,
    outcome mailroom.outcome NOT NULL,
    reason text,

    CONSTRAINT delivery_log_pkey PRIMARY KEY (id),
    CONSTRAINT delivery_log_tokens CHECK (pg_catalog.cardinality(tokens) > 0)
) WITH (
    -- Only appended to and pruned. Inserts alone make it worth a visit early, because they are
    -- frozen then in small steps.
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.1
);

CREATE INDEX delivery_log_tokens_idx ON mailroom.delivery_log ((tokens[1] / 256));

CREATE INDEX delivery_log_refused_idx ON mailroom.delivery_log ((tokens[1]))
    WHERE outcome IN ('retry', 'dead');

CREATE INDEX delivery_log_happened_at_idx ON mailroom.delivery_log USING brin (happened_at);

CREATE INDEX delivery_log_expired_idx ON mailroom.delivery_log (happened_at)
    WHERE outcome = 'expired';

CREATE INDEX delivery_log_in_doubt_idx ON mailroom.delivery_log (happened_at)
    WHERE outcome = 'in_doubt';

COMMENT ON TABLE mailroom.delivery_log IS
    'What became of delivery attempts: rows are appended and pruned, and never changed but by '
    'forget(). Tokens of a batch that were sent at the same attempt share a row if their ids '
    'divided by 256 are the same; the view delivery_attempts has one row a token.';
COMMENT ON COLUMN mailroom.delivery_log.id IS
    'Says nothing: by it a subscriber of logical replication finds a row that is pruned.';
COMMENT ON COLUMN mailroom.delivery_log.tokens IS 'The tokens, which may have been deleted since.';
COMMENT ON COLUMN mailroom.delivery_log.happened_at IS 'When that was known.';
COMMENT ON COLUMN mailroom.delivery_log.collector_id IS
    'The collector that had the batch or, where there was none, that came to the token; null where '
    'the application ended it, and of what became of a mail that was handed over.';
COMMENT ON COLUMN mailroom.delivery_log.batch IS
    'The batch; null for a token that was in none, and of what became of a mail that was handed '
    'over.';
COMMENT ON COLUMN mailroom.delivery_log.attempt IS
    'Which attempt of each token, from 1; where there was none, how many there were before.';
COMMENT ON COLUMN mailroom.delivery_log.outcome IS 'How it ended.';
COMMENT ON COLUMN mailroom.delivery_log.reason IS
    'For retry, in_doubt and dead why: what the sender said, why no line can carry the row, or '
    'that its address is suppressed. For unanswered why the sender was unavailable, or why it has '
    'not tried the mail.';
COMMENT ON INDEX mailroom.delivery_log_tokens_idx IS
    'Serves history(): a row for each sent token, and an entry of it in an index, would take as '
    'long as the rest of a settlement.';
COMMENT ON INDEX mailroom.delivery_log_refused_idx IS
    'Serves settling: how often a token was refused, and whether it was given up.';
COMMENT ON INDEX mailroom.delivery_log_happened_at_idx IS
    'Serves counting what was sent lately. Pruning reads the log block by block.';
COMMENT ON INDEX mailroom.delivery_log_in_doubt_idx IS
    'Serves status(): how many attempts ended in doubt lately, without reading the log.';
COMMENT ON INDEX mailroom.delivery_log_expired_idx IS
    'Serves status(): how many tokens expired before they were sent, without reading the log.';

-- forget() deletes those of a subject's tokens by their ids and, since tokens are pruned earlier,
-- those of its addresses by address_hash().
CREATE TABLE mailroom.receipts (
    id bigint GENERATED BY DEFAULT AS IDENTITY,
    token bigint NOT NULL,
    attempt integer NOT NULL,
    accepted_at timestamptz NOT NULL,
    action smallint,
    provider text NOT NULL,
    message_id text,
    answer text NOT NULL,
    address_hash bytea,

    CONSTRAINT receipts_pkey PRIMARY KEY (id)
) WITH (
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.1
);

CREATE INDEX receipts_token_idx ON mailroom.receipts (token);

CREATE INDEX receipts_address_hash_idx ON mailroom.receipts (address_hash);

COMMENT ON TABLE mailroom.receipts IS
    'What providers said of the mails that they accepted, where the sender tells: rows are '
    'appended and pruned with the log, never changed.';
COMMENT ON COLUMN mailroom.receipts.id IS 'As in delivery_log.';
COMMENT ON COLUMN mailroom.receipts.token IS 'The token, which may have been deleted since.';
COMMENT ON COLUMN mailroom.receipts.attempt IS 'Which attempt of the token was accepted.';
COMMENT ON COLUMN mailroom.receipts.accepted_at IS 'When the collector recorded it.';
COMMENT ON COLUMN mailroom.receipts.action IS 'As in issued_tokens.';
COMMENT ON COLUMN mailroom.receipts.provider IS 'Kind of the provider, such as smtp.';
COMMENT ON COLUMN mailroom.receipts.message_id IS
    'The provider''s own id of the mail, if the sender knows it.';
COMMENT ON COLUMN mailroom.receipts.answer IS
    'What the provider answered, at most 200 characters, without addresses and secrets.';
COMMENT ON COLUMN mailroom.receipts.address_hash IS
    'The address, as address_hash() has it: it can be looked for and not be read. Null if the '
    'token had none of its own.';
COMMENT ON INDEX mailroom.receipts_token_idx IS 'Serves trace(), by token.';
COMMENT ON INDEX mailroom.receipts_address_hash_idx IS
    'Serves trace(), by address, also when the token is pruned.';

CREATE TABLE mailroom.suppressions (
    address text NOT NULL,
    reason text NOT NULL,
    provider text,
    detail text,
    suppressed_at timestamptz NOT NULL,

    CONSTRAINT suppressions_pkey PRIMARY KEY (address),
    CONSTRAINT suppressions_reason CHECK (reason IN ('bounce', 'complaint', 'manual')),
    CONSTRAINT suppressions_provider CHECK (provider ~ '^[a-z][a-z0-9_]{0,31}$'),
    CONSTRAINT suppressions_detail CHECK (octet_length(detail) <= 1000)
);

COMMENT ON TABLE mailroom.suppressions IS
    'Addresses that get no mails, until somebody lifts it. '
    'A token for one is given up when it is claimed.';
COMMENT ON COLUMN mailroom.suppressions.address IS 'As normal_address() has it.';
COMMENT ON COLUMN mailroom.suppressions.reason IS
    'bounce: a provider or mail server says that it cannot be reached for good; complaint: a mail '
    'was reported as unwanted; manual.';
COMMENT ON COLUMN mailroom.suppressions.provider IS 'Who said so; null for manual.';
COMMENT ON COLUMN mailroom.suppressions.detail IS
    'What was said, without addresses and secrets; at most 200 characters.';
COMMENT ON COLUMN mailroom.suppressions.suppressed_at IS
    'Since when; later notifications change nothing.';
COMMENT ON CONSTRAINT suppressions_pkey ON mailroom.suppressions IS
    'Serves claiming: a look-up for each token.';

-- What an installation keeps about itself and its collectors.

CREATE TABLE mailroom.installation (
    is_only boolean NOT NULL DEFAULT true,
    log_complete_since timestamptz NOT NULL,
    system_identifier bigint,
    address_key bytea NOT NULL DEFAULT sha256(uuid_send(gen_random_uuid()) ||
        uuid_send(gen_random_uuid())),
    token_format text NOT NULL DEFAULT 'v1',
    name text,

    CONSTRAINT installation_pkey PRIMARY KEY (is_only),
    CONSTRAINT installation_one_row CHECK (is_only),
    -- v3 has keys of another kind, so that its collectors are told of it with their keys.
    CONSTRAINT installation_token_format CHECK (token_format IN ('v1', 'v2')),
    CONSTRAINT installation_name CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$')
);

INSERT INTO mailroom.installation (log_complete_since, system_identifier)
VALUES (clock_timestamp(), mailroom.cluster_identifier());

COMMENT ON TABLE mailroom.installation IS
    'One row: what this installation of Mailroom keeps about itself.';
COMMENT ON COLUMN mailroom.installation.is_only IS 'True; its key allows no second row.';
COMMENT ON COLUMN mailroom.installation.log_complete_since IS
    'From then on every delivery attempt is in delivery_log; '
    'what was done before did not exist or was pruned.';
COMMENT ON COLUMN mailroom.installation.system_identifier IS
    'The cluster that the queue is sent from. In a dump that was restored into another one it is '
    'another''s, and nothing is sent.';
COMMENT ON COLUMN mailroom.installation.address_key IS
    'Key of the hashes of addresses in receipts. '
    'Whoever has it can try which addresses they are of.';
COMMENT ON COLUMN mailroom.installation.token_format IS
    'Format that collectors sign unless they are told another one. The program records v2 where '
    'it creates an installation without accounts, in the same transaction; v1 is what existing '
    'verifiers expect.';
COMMENT ON COLUMN mailroom.installation.name IS
    'Which installation this is, as bind() was told. Collectors that are started must name the '
    'same one: a physical copy has the identifier of its cluster. Null: any collector may collect.';

CREATE TABLE mailroom.collectors (
    collector_id bigint NOT NULL,
    name text NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    state text,
    state_since timestamptz NOT NULL,
    state_reason text,
    token_format text,
    installation text,
    version text,
    settings json,
    counts json,

    CONSTRAINT collectors_pkey PRIMARY KEY (collector_id)
) WITH (fillfactor = 50);

COMMENT ON TABLE mailroom.collectors IS
    'Runs: processes that collect or have collected, with what they did.';
COMMENT ON COLUMN mailroom.collectors.collector_id IS
    'Chosen at random by the process when it starts.';
COMMENT ON COLUMN mailroom.collectors.name IS 'Host and process id, as the process knows them.';
COMMENT ON COLUMN mailroom.collectors.started_at IS 'When it came first.';
COMMENT ON COLUMN mailroom.collectors.seen_at IS
    'When it said last that it lives, to within half a minute.';
COMMENT ON COLUMN mailroom.collectors.state IS
    'Of its sender: new (has had nothing to answer), ready, unanswered (has not answered yet what '
    'it was given), failing (ends or does not start), open (is unavailable) or half_open (is being '
    'tried again); or ended, if the collector ended in order; or resting, if it has no session '
    'while nothing is due. Null without a sender. One that gives no sign of life, and has neither '
    'ended nor rests, was killed.';
COMMENT ON COLUMN mailroom.collectors.state_since IS
    'Since when; of open, half_open and failing, since the outage began.';
COMMENT ON COLUMN mailroom.collectors.state_reason IS
    'Why the sender is not available, as the collector''s log says it; null if it is. Of a run '
    'that ended, why it did.';
COMMENT ON COLUMN mailroom.collectors.token_format IS
    'Format of the tokens that it signs; null if it has not said.';
COMMENT ON COLUMN mailroom.collectors.installation IS
    'Name of the installation that it was told to collect for; null if none.';
COMMENT ON COLUMN mailroom.collectors.version IS 'Version of the program; null if it has not said.';
COMMENT ON COLUMN mailroom.collectors.settings IS
    'Its settings that are no secret, by the names of the log, as text.';
COMMENT ON COLUMN mailroom.collectors.counts IS
    'How many tokens it claimed, and what became of them, to within half a minute.';

-- A collector gives three signs of life in that time.
CREATE FUNCTION mailroom.is_seen(seen_at timestamptz, epoch timestamptz) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
RETURN seen_at > epoch - interval '90 seconds';

COMMENT ON FUNCTION mailroom.is_seen(timestamptz, timestamptz) IS
    'Whether a sign of life is so recent that its collector counts as alive.';

-- It says so before it ends its sessions, and comes back within a day.
CREATE FUNCTION mailroom.rests(state text, seen_at timestamptz, epoch timestamptz) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
RETURN coalesce(state = 'resting', false) AND seen_at > epoch - interval '25 hours';

COMMENT ON FUNCTION mailroom.rests(text, timestamptz, timestamptz) IS
    'Whether a collector has said that it rests, and is expected back.';

CREATE TABLE mailroom.rate_lock ();

COMMENT ON TABLE mailroom.rate_lock IS
    'Has no rows: it is locked by spend(). An advisory lock in its place could be held by any '
    'role of the database.';

CREATE TABLE mailroom.prune_lock ();

COMMENT ON TABLE mailroom.prune_lock IS
    'Has no rows: whoever prunes locks it, for the same reason as rate_lock.';

-- Secrets and codes, and what is kept of them.

-- Bodies of standard SQL are bound when they are created and need no search path, which would keep
-- them from being inlined.
CREATE FUNCTION mailroom.consumed_id(secret bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN substring(sha256('mailroom/consumed\000'::bytea || secret) FROM 1 FOR 16);

COMMENT ON FUNCTION mailroom.consumed_id(bytea) IS
    'Consumed id of a token: the first 16 bytes of SHA-256("mailroom/consumed", a zero byte, '
    'secret). Tells nothing about the secret.';

-- In a database with another encoding than UTF-8 the digits have the same bytes.
CREATE FUNCTION mailroom.code_hash(secret bytea, code text) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN sha256('mailroom/code\000'::bytea || secret || decode(replace(code, '\', '\\'), 'escape'));

COMMENT ON FUNCTION mailroom.code_hash(bytea, text) IS
    'SHA-256("mailroom/code", a zero byte, secret, code). Five digits are found by trying, but not '
    'without the 32 bytes of the secret.';

-- A random UUID has 122 bits of the server's cryptographic generator; two have 244, more than
-- anybody can try. The hash spreads them over all bytes. A third UUID would cost a registration as
-- much as another index.
CREATE FUNCTION mailroom.generate_secret() RETURNS bytea
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

COMMENT ON FUNCTION mailroom.generate_secret() IS '32 unguessable bytes.';

CREATE FUNCTION mailroom.generate_code(digits integer) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    count bigint := 10::bigint ^ digits;
    number bigint;
BEGIN
    LOOP
        -- The first 32 bits of a random UUID are all random.
        number := ('x' || left(gen_random_uuid()::text, 8))::bit(32)::bigint;
        -- What lies above the largest multiple would favour the lower codes.
        EXIT WHEN number < (1::bigint << 32) / count * count;
    END LOOP;

    RETURN lpad((number % count)::text, digits, '0');
END;
$$;

COMMENT ON FUNCTION mailroom.generate_code(integer) IS
    'Decimal digits from a cryptographic generator, uniformly distributed; 5 to 8.';

-- Addresses in the one form by which they are compared, and tags of languages.

-- In a database with another encoding than UTF-8 a text may have no UTF-8 form; the row is sent as
-- a byte that is none, which no line takes, so that the token is given up and the others of its
-- batch go out.
CREATE FUNCTION mailroom.to_utf8(value text) RETURNS bytea
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN convert_to(value, 'UTF8');
EXCEPTION WHEN untranslatable_character OR character_not_in_repertoire THEN
    -- Not as a literal, whose backslash means another byte without standard_conforming_strings.
    RETURN decode('ff', 'hex');
END;
$$;

COMMENT ON FUNCTION mailroom.to_utf8(text) IS
    'Text in UTF-8, or one byte that is not, if it has no such form.';

-- Not stable, as the database's encoding never changes: so that a plan has its answer, and what
-- calls it becomes a part of other statements.
CREATE FUNCTION mailroom.is_utf8() RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN getdatabaseencoding() = 'UTF8';

COMMENT ON FUNCTION mailroom.is_utf8() IS 'Whether the encoding of the database is UTF-8.';

CREATE FUNCTION mailroom.code_points(utf8 bytea) RETURNS integer[]
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    byte integer;
    point integer;
    lowest integer;
    missing integer := 0;
    points integer[] := '{}';
BEGIN
    FOR place IN 0 .. octet_length(utf8) - 1 LOOP
        byte := get_byte(utf8, place);

        IF missing > 0 THEN
            point := CASE WHEN byte BETWEEN 128 AND 191 THEN point * 64 + byte - 128 END;
            missing := missing - 1;
        ELSE
            CASE
                WHEN byte < 128 THEN point := byte; lowest := 0; missing := 0;
                WHEN byte < 224 THEN point := byte - 192; lowest := 128; missing := 1;
                WHEN byte < 240 THEN point := byte - 224; lowest := 2048; missing := 2;
                ELSE point := byte - 240; lowest := 65536; missing := 3;
            END CASE;
        END IF;

        IF point IS NULL OR point < 0 OR missing = 0 AND point < lowest THEN
            RETURN NULL;
        ELSIF missing = 0 THEN
            points := points || point;
        END IF;
    END LOOP;

    RETURN CASE WHEN missing = 0 THEN points END;
END;
$$;

COMMENT ON FUNCTION mailroom.code_points(bytea) IS
    'The characters of a text in UTF-8, by their numbers in Unicode; null if it is not UTF-8.';

-- The letters that have a capital: of ASCII, Latin, Greek, Cyrillic and Armenian. A function of a
-- locale knows more, but other ones in each database, and what is suppressed must not depend on it.
CREATE FUNCTION mailroom.fold_letter(letter integer) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN letter <@ '{[65,91),[192,215),[216,223),[913,930),[931,940),[1040,1072)}'::int4multirange
    THEN letter + 32
    WHEN letter < 256 THEN letter
    WHEN letter % 2 = 0
        AND letter <@ (
            '{[256,304),[308,312),[330,376),[478,496),[504,544),[546,564),[1120,1154),[1162,1216),'
            '[1232,1328),[7680,7830),[7840,7936)}'
        )::int4multirange
    THEN letter + 1
    WHEN letter % 2 = 1
        AND letter <@ '{[313,319),[321,329),[377,383),[461,477),[1217,1231)}'::int4multirange
    THEN letter + 1
    WHEN letter = 376 THEN 255
    WHEN letter = 902 THEN 940
    WHEN letter BETWEEN 904 AND 906 THEN letter + 37
    WHEN letter = 908 THEN 972
    WHEN letter BETWEEN 910 AND 911 THEN letter + 63
    WHEN letter BETWEEN 1024 AND 1039 THEN letter + 80
    WHEN letter BETWEEN 1329 AND 1366 THEN letter + 48
    ELSE letter
END;

COMMENT ON FUNCTION mailroom.fold_letter(integer) IS
    'The small letter of a capital, and any other character as it is; by their numbers in Unicode.';

CREATE FUNCTION mailroom.punycode(label integer[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    digits constant text := 'abcdefghijklmnopqrstuvwxyz0123456789';
    written text := (
        SELECT coalesce(string_agg(chr(t.point), '' ORDER BY nth), '')
        FROM unnest(label) WITH ORDINALITY AS t (point, nth)
        WHERE t.point < 128
    );
    basic constant integer := length(written);
    handled integer := basic;
    lowest integer := 128;
    delta integer := 0;
    bias integer := 72;
    next_point integer;
    point integer;
    rest integer;
    threshold integer;
    step integer;
BEGIN
    IF basic > 0 THEN
        written := written || '-';
    END IF;

    WHILE handled < cardinality(label) LOOP
        next_point := (SELECT min(t.point) FROM unnest(label) AS t (point) WHERE t.point >= lowest);
        delta := delta + (next_point - lowest) * (handled + 1);
        lowest := next_point;

        FOREACH point IN ARRAY label LOOP
            IF point < lowest THEN
                delta := delta + 1;
            ELSIF point = lowest THEN
                -- The number of steps to this place, with digits of variable weight.
                rest := delta;
                step := 36;

                LOOP
                    threshold := greatest(1, least(step - bias, 26));
                    EXIT WHEN rest < threshold;
                    written := written
                        || substr(digits, threshold + (rest - threshold) % (36 - threshold) + 1, 1);
                    rest := (rest - threshold) / (36 - threshold);
                    step := step + 36;
                END LOOP;

                written := written || substr(digits, rest + 1, 1);

                -- How large the next number is likely to be.
                delta := delta / CASE WHEN handled = basic THEN 700 ELSE 2 END;
                handled := handled + 1;
                delta := delta + delta / handled;
                bias := 0;

                WHILE delta > 455 LOOP
                    delta := delta / 35;
                    bias := bias + 36;
                END LOOP;

                bias := bias + 36 * delta / (delta + 38);
                delta := 0;
            END IF;
        END LOOP;

        delta := delta + 1;
        lowest := lowest + 1;
    END LOOP;

    RETURN written;
END;
$$;

COMMENT ON FUNCTION mailroom.punycode(integer[]) IS
    'A label of a domain in ASCII, as RFC 3492 writes it, without the prefix.';

CREATE FUNCTION mailroom.to_ascii_label(label integer[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_ascii constant boolean := 128 > ALL (label);
    written text;
BEGIN
    -- What begins as an encoded label does is none if it has other characters.
    IF label[1] = 45
        OR label[cardinality(label)] = 45
        OR NOT is_ascii AND label[1:4] = ARRAY[120, 110, 45, 45]
    THEN
        RETURN NULL;
    END IF;

    IF is_ascii THEN
        written := (
            SELECT string_agg(chr(point), '' ORDER BY nth)
            FROM unnest(label) WITH ORDINALITY AS t (point, nth)
        );
    ELSE
        written := 'xn--' || mailroom.punycode(label);
    END IF;

    RETURN CASE WHEN length(written) <= 63 THEN written END;
END;
$$;

COMMENT ON FUNCTION mailroom.to_ascii_label(integer[]) IS
    'A label of a domain in small letters, in ASCII; null if it cannot be one.';

-- Who encodes a domain maps its characters before (UTS 46): full-width letters and other dots are
-- replaced, invisible characters left out. So that one mailbox has one form, addresses have only
-- characters that are mapped to themselves, and capitals. These are letters, marks and digits of
-- scripts in use, and emoji; the sender compares its own mapping with the same form.
CREATE FUNCTION mailroom.map_address(email text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    stable constant int4multirange :=
        '{[183,184),[192,304),[305,306),[308,319),[321,329),[330,383),[417,418),[432,433),'
        '[461,497),[501,502),[504,544),[545,564),[592,672),[768,832),[891,894),[902,903),'
        '[904,975),[1024,1216),[1217,1367),[1369,1415),[1416,1419),[1421,1525),[1542,1564),'
        '[1565,1653),[1657,1757),[1758,1792),[1872,1920),[2208,2274),[2275,2392),[2400,2520),'
        '[2528,2611),[2613,2614),[2616,2642),[2652,2653),[2662,2904),[2911,3635),[3636,3763),'
        '[3764,3802),[3806,3852),[3853,3907),[3908,3917),[3918,3922),[3923,3927),[3928,3932),'
        '[3933,3945),[3946,3955),[3956,3957),[3962,3969),[3970,3987),[3988,3997),[3998,4002),'
        '[4003,4007),[4008,4012),[4013,4025),[4026,4256),[4304,4348),[4349,4352),[4608,5018),'
        '[6016,6068),[6070,6138),[6400,6688),[6912,7296),[7376,7419),[7680,7834),[7836,7838),'
        '[7839,7936),[9728,10240),[12293,12336),[12353,12443),[12445,12447),[12448,12543),'
        '[12549,12592),[13312,42183),[43136,43823),[43968,55204),[127744,129787),'
        '[131072,192094),[196608,205824)}';
    -- PostgreSQL composes characters in UTF-8 alone.
    -- Of these none is composed of others that stand here, too.
    without_marks constant int4multirange :=
        '{[183,184),[192,768),[880,1155),[1162,1424),[1488,1515),[1569,1611),[3585,3633),'
        '[3634,3636),[3648,3655),[12353,12441),[12445,12544),[13312,40960),[44032,55204)}';
    of_local_part constant int4multirange :=
        '{[33,34),[35,40),[42,44),[45,58),[61,62),[63,64),[65,91),[94,127)}';
    of_domain constant int4multirange := '{[45,47),[48,58),[95,96),[97,123)}';
    is_utf8 constant boolean := mailroom.is_utf8();
    points integer[];
    place integer;
    last_place integer;
    folded text;
    local_part text;
    domain text;
    label text;
BEGIN
    IF octet_length(email) > 254 THEN
        RETURN NULL;
    END IF;

    IF is_utf8 THEN
        points := ARRAY(
            SELECT mailroom.fold_letter(ascii(letter))
            FROM string_to_table(email, NULL) WITH ORDINALITY AS t (letter, nth)
            ORDER BY nth
        );
    ELSE
        points := mailroom.code_points(mailroom.to_utf8(email));
        points := ARRAY(
            SELECT mailroom.fold_letter(point) FROM unnest(points) WITH ORDINALITY AS t (point, nth)
                ORDER BY nth
        );
    END IF;

    place := array_position(points, 64);

    IF place IS NULL OR EXISTS (
        SELECT
        FROM unnest(points) WITH ORDINALITY AS t (point, nth)
        WHERE nth <> place AND NOT (
            CASE
                WHEN point >= 128 THEN point <@ stable AND (is_utf8 OR point <@ without_marks)
                WHEN nth < place THEN point <@ of_local_part
                ELSE point <@ of_domain
            END
        )
    ) THEN
        RETURN NULL;
    END IF;

    -- Servers do not map what stands before the @. Its letters are folded all the same, where it
    -- can be written in this encoding.
    IF is_utf8 THEN
        folded := (
            SELECT string_agg(chr(point), '' ORDER BY nth)
            FROM unnest(points) WITH ORDINALITY AS t (point, nth)
        );
        local_part := split_part(folded, '@', 1);
    ELSE
        local_part := lower(split_part(email, '@', 1) COLLATE "C");
    END IF;

    -- Dots without letters between them need quotes, which count.
    IF local_part = ''
        OR octet_length(convert_to(local_part, 'UTF8'))
            + (CASE WHEN local_part ~ '^[.]|[.][.]|[.]$' THEN 2 ELSE 0 END) > 64
        OR is_utf8 AND NOT folded IS NFC NORMALIZED
    THEN
        RETURN NULL;
    END IF;

    WHILE place IS NOT NULL LOOP
        last_place := place;
        place := array_position(points, 46, last_place + 1);
        label := mailroom.to_ascii_label(points[last_place + 1:coalesce(place,
            cardinality(points) + 1) - 1]);

        IF label IS NULL THEN
            RETURN NULL;
        END IF;

        domain := coalesce(domain || '.', '') || label;
    END LOOP;

    RETURN CASE
        WHEN octet_length(convert_to(local_part, 'UTF8')) + 1 + length(domain) <= 254
        THEN local_part || '@' || domain
    END;
END;
$$;

COMMENT ON FUNCTION mailroom.map_address(text) IS 'As normal_address(), for any address.';

-- Most addresses are of ASCII, and need no more than small letters. Mail servers tell local parts
-- apart by case in theory only, and providers report addresses in lower case.
CREATE FUNCTION mailroom.normal_address(email text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN octet_length(email) = length(email) AND (mailroom.is_utf8() OR email !~ E'[^\\x01-\\x7f]')
    THEN lower(email COLLATE "C")
    ELSE mailroom.map_address(email)
END;

COMMENT ON FUNCTION mailroom.normal_address(text) IS
    'The form of an address by which suppressions are kept and looked up: small letters, and the '
    'domain in ASCII. Null for some of what is no address.';

-- Strict enough that no sender takes it for another one; whether it can be reached is for its mail
-- server to say. In a short one no part can be too long.
CREATE FUNCTION mailroom.is_address(email text) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN octet_length(email) <= 64
        AND email ~ (
            '^[A-Za-z0-9!#$%&''*+/=?^_`{|}~-]+(?:[.][A-Za-z0-9!#$%&''*+/=?^_`{|}~-]+)*'
            '@[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?'
            '(?:[.][A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?)*$'
        )
    THEN true
    ELSE mailroom.map_address(email) IS NOT NULL
END;

COMMENT ON FUNCTION mailroom.is_address(text) IS 'Whether a mail can be addressed to this.';

-- Accounts have whatever an application lets in. What has no @ no sender takes for somebody's
-- address; all else it may read as another one.
CREATE FUNCTION mailroom.is_addressable(email text) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN email NOT LIKE '%@%' OR mailroom.is_address(email);

COMMENT ON FUNCTION mailroom.is_addressable(text) IS
    'Whether an account''s token may be handed to a sender: its email is an address, or none that '
    'could be taken for somebody else''s.';

CREATE FUNCTION mailroom.is_language(tag text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN tag ~ '^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}$';

COMMENT ON FUNCTION mailroom.is_language(text) IS
    'Whether this is a language''s tag, such as de or pt-BR, as in BCP 47.';

-- Browsers, locales and databases write more than a template is chosen by. A mail in the sender's
-- own language is better than none.
CREATE FUNCTION mailroom.language_tag(given text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN mailroom.is_language(given) THEN given
    ELSE substring(
        translate(left(given, 100), '_', '-')
        FROM '^[[:space:]]*([A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3})(?![A-Za-z0-9])'
    )
END;

COMMENT ON FUNCTION mailroom.language_tag(text) IS
    'The language''s tag in this, without what follows it: pt-BR of pt_BR.UTF-8 or '
    'pt-BR-u-nu-latn; null if it does not begin with one.';

-- An application makes a token and queues its mail, in its own transaction.

CREATE FUNCTION mailroom.next_token_id() RETURNS bigint
LANGUAGE sql VOLATILE
RETURN nextval('mailroom.issued_tokens_id_seq'::regclass);

COMMENT ON FUNCTION mailroom.next_token_id() IS 'The next token''s id.';

-- The collector's payload.rs has the same limits. A payload of 200 bytes has neither a hundred
-- levels nor a number of 309 digits, and exact looks follow where the text alone could have them.
CREATE FUNCTION mailroom.payload_fault(payload jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    written text := payload::text;
BEGIN
    RETURN CASE
        WHEN octet_length(written) <= 200 THEN NULL
        WHEN octet_length(written) > 8192 THEN 'payload has more than 8192 bytes'
        WHEN octet_length(written) - octet_length(translate(written, '[{', '')) > 100
            AND jsonb_path_exists(payload,
                'strict $.**{100} ? (@.type() == "array" || @.type() == "object")')
        THEN 'payload is nested more than 100 levels deep, which no sender reads'
        WHEN written ~ '[0-9]{155}[0-9]{154}'
            AND jsonb_path_exists(payload,
                'strict $.** ? (@.type() == "number" && (@ >= 1e308 || @ <= -1e308))')
        THEN 'payload has a number of 1e308 or more, which no sender reads'
    END;
END;
$$;

COMMENT ON FUNCTION mailroom.payload_fault(jsonb) IS
    'Why no sender can read a payload; null if each can.';

-- A caller whose tracing is broken still gets its mail: what is invalid counts as nothing. The
-- length goes first, so that no pattern is looked for in a text of megabytes.
CREATE FUNCTION mailroom.valid_traceparent(given text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN octet_length(given) = 55 THEN CASE
        -- By the length and the places of the hyphens: a pattern that counts takes four times as
        -- long.
        WHEN given ~ '^00-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+$'
            AND substr(given, 36, 1) = '-' AND substr(given, 53, 1) = '-'
            AND substr(given, 4, 32) <> repeat('0', 32) AND substr(given, 37, 16) <> repeat('0', 16)
        THEN given
    END
END;

COMMENT ON FUNCTION mailroom.valid_traceparent(text) IS
    'A traceparent of W3C Trace Context, version 00; null for what is none.';

CREATE FUNCTION mailroom.traceparent(given text) RETURNS text
LANGUAGE sql STABLE
RETURN coalesce(
    mailroom.valid_traceparent(given),
    mailroom.valid_traceparent(current_setting('mailroom.traceparent', true))
);

COMMENT ON FUNCTION mailroom.traceparent(text) IS
    'The trace that a token belongs to: the given one or else that of the setting '
    'mailroom.traceparent; null if neither is valid.';

-- Apart, with a setting that each call of enqueue() would pay for, and that few need: without it a
-- plan for an empty table reads all keys later. Volatile, to see what was committed while the key
-- was waited for.
CREATE FUNCTION mailroom.find_key(action smallint, key text, OUT token bigint, OUT digest bytea)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
BEGIN
    SELECT known.token, known.digest INTO find_key.token, find_key.digest
    FROM mailroom.idempotency_keys AS known
    WHERE known.action = find_key.action AND known.key = find_key.key;
END;
$$;

COMMENT ON FUNCTION mailroom.find_key(smallint, text) IS
    'The token of an idempotency key, and the digest of its mail; nulls if the key is not known.';

CREATE FUNCTION mailroom.enqueue(
    action text,
    recipient_email text,
    recipient_name text DEFAULT NULL,
    subject_id text DEFAULT NULL,
    payload jsonb DEFAULT NULL,
    language text DEFAULT NULL,
    deliver_at timestamptz DEFAULT NULL,
    idempotency_key text DEFAULT NULL,
    binding bytea DEFAULT NULL,
    notice_recipient text DEFAULT NULL,
    traceparent text DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    wanted mailroom.actions%ROWTYPE;
    fault text;
    epoch timestamptz := mailroom.clock();
    due_at timestamptz := greatest(enqueue.deliver_at, epoch);
    ends_at bigint;
    secret bytea := mailroom.generate_secret();
    code text;
    made bigint;
    earlier record;
    digest bytea;
BEGIN
    -- Reading the table locks it until the transaction ends, so that what tokens carry of the
    -- action does not change before they are committed. A lock of the row would do that as well,
    -- but concurrent transactions would then make a MultiXact of all lockers for each token.
    SELECT * INTO wanted FROM mailroom.actions WHERE name = enqueue.action;

    -- In a stricter isolation level an old snapshot can show a row that has been changed since. If
    -- there is any sign of that, locking the row finds out, and fails as a serialization error.
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        PERFORM FROM mailroom.actions
        WHERE number = wanted.number AND xmax::text <> '0'
        FOR KEY SHARE;
    END IF;

    -- What was given is not repeated: an address does not belong into a log.
    fault := CASE
        WHEN wanted.number IS NULL THEN
            'there is no such action; mailroom.actions has those that there are'
        -- A call that is repeated is answered as before.
        WHEN wanted.is_retired
            AND (mailroom.find_key(wanted.number, enqueue.idempotency_key)).token IS NULL
        THEN 'the action is retired'
        WHEN mailroom.is_address(enqueue.recipient_email) IS NOT TRUE THEN
            'recipient_email is not an address that mail can be sent to: NAME@DOMAIN without '
            'spaces, quotes,'
            ' brackets and invisible characters, of at most 254 bytes'
        WHEN enqueue.notice_recipient IS NOT NULL
            AND mailroom.is_address(enqueue.notice_recipient) IS NOT TRUE THEN
            'notice_recipient is not an address that mail can be sent to'
        WHEN octet_length(enqueue.recipient_name) > 254
            OR enqueue.recipient_name ~ '[[:cntrl:]]' THEN
            'recipient_name has more than 254 bytes or a control character'
        WHEN octet_length(enqueue.subject_id) NOT BETWEEN 1 AND 255
            THEN 'subject_id is empty or has more than 255 bytes'
        WHEN enqueue.subject_id IS NULL AND wanted.eligibility IS NOT NULL THEN
            'this action needs a subject_id, of which its eligibility is asked'
        WHEN enqueue.deliver_at > epoch + interval '1 year'
            THEN 'deliver_at is more than a year away'
        WHEN octet_length(enqueue.idempotency_key) NOT BETWEEN 1 AND 255
            THEN 'idempotency_key is empty or has more than 255 bytes'
        WHEN octet_length(enqueue.binding) <> 16 THEN 'binding is not of 16 bytes'
        ELSE mailroom.payload_fault(enqueue.payload)
    END;

    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'mailroom.enqueue(): %', fault USING ERRCODE = 'invalid_parameter_value';
    END IF;

    ends_at := ceil(extract(epoch FROM due_at + wanted.lifetime))::bigint;

    IF wanted.code_digits > 0 THEN
        code := mailroom.generate_code(wanted.code_digits::integer);
    END IF;

    made := mailroom.next_token_id();

    IF enqueue.idempotency_key IS NOT NULL THEN
        -- In the database's own encoding: some of its texts may have no form in UTF-8.
        digest := sha256(convert_to(jsonb_build_array(
            enqueue.recipient_email, enqueue.recipient_name, enqueue.subject_id, enqueue.payload,
                enqueue.language,
            -- A time as text depends on the session's time zone.
            extract(epoch FROM enqueue.deliver_at),
            encode(enqueue.binding, 'hex'), enqueue.notice_recipient
        )::text, getdatabaseencoding()));

        INSERT INTO mailroom.idempotency_keys (action, key, token, digest, expires_at, subject_id)
        VALUES (
            wanted.number, enqueue.idempotency_key, made, digest, ends_at + 30 * 86400,
            enqueue.subject_id
        )
        ON CONFLICT ON CONSTRAINT idempotency_keys_pkey DO NOTHING;

        IF NOT FOUND THEN
            SELECT * INTO earlier
            FROM mailroom.find_key(wanted.number, enqueue.idempotency_key);

            IF earlier.token IS NULL THEN
                RAISE EXCEPTION
                    'mailroom.enqueue(): another transaction has just used this idempotency_key'
                    USING ERRCODE = 'serialization_failure', HINT = 'Repeat the transaction.';
            ELSIF earlier.digest <> digest THEN
                RAISE EXCEPTION
                    'mailroom.enqueue(): this idempotency_key was used with other arguments, for '
                    'token %', earlier.token
                    USING ERRCODE = 'unique_violation', HINT =
                        'One key stands for one mail: take a key of its own for another.';
            END IF;

            RETURN earlier.token;
        END IF;
    END IF;

    INSERT INTO mailroom.issued_tokens (
        id, action, subject_id, recipient_email, recipient_name, language, consumed_id, code_hash,
            created_at, expires_at,
        binding, has_payload, notice_recipient, traceparent
    )
    VALUES (
        made, wanted.number, enqueue.subject_id, enqueue.recipient_email, enqueue.recipient_name,
        mailroom.language_tag(enqueue.language), mailroom.consumed_id(secret),
            mailroom.code_hash(secret, code),
        floor(extract(epoch FROM epoch))::bigint, ends_at,
        enqueue.binding, enqueue.payload IS NOT NULL, enqueue.notice_recipient,
        mailroom.traceparent(enqueue.traceparent)
    );

    IF enqueue.payload IS NOT NULL THEN
        INSERT INTO mailroom.payloads (token, payload) VALUES (made, enqueue.payload);
    END IF;

    -- By a clock that is read when the transaction has its number, as peek() needs it.
    epoch := mailroom.clock();
    due_at := greatest(due_at, epoch);

    -- Mails for one time, such as nine o'clock, are spread over a second: what looks at rows of the
    -- queue part by part must not find millions at one place.
    INSERT INTO mailroom.queue (token, due_at, put_off_at, priority, secret, code)
    VALUES (
        made,
        CASE WHEN due_at > epoch THEN due_at + interval '1 microsecond' * (made % 1000000)
            ELSE due_at END,
        CASE WHEN due_at > epoch THEN epoch END,
        wanted.priority, secret, code
    );

    RETURN made;
END;
$$;

COMMENT ON FUNCTION mailroom.enqueue(text, text, text, text, jsonb, text, timestamptz, text,
    bytea, text, text) IS
    'Makes a token and queues its mail in the caller''s transaction; answers the token''s id. The '
    'same idempotency_key with the same arguments answers the id of the first call and sends '
    'nothing again, until 30 days after that token''s expiry. deliver_at is at most a year away, '
    'and the lifetime begins there; the mail is due within a second from then on. '
    'binding names the browser that the link is for, and notice_recipient who gets notices, as in '
    'issued_tokens. traceparent names the trace that the mail belongs to, or else the setting '
    'mailroom.traceparent of the transaction does; what is invalid is ignored.';

-- Alike for every browser, whether it has a token or not, so that nobody learns by it who exists.
CREATE FUNCTION mailroom.browser_code(binding bytea) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    epoch bigint := floor(extract(epoch FROM mailroom.clock()));
    shown text;
BEGIN
    IF octet_length(browser_code.binding) IS DISTINCT FROM 16 THEN
        RAISE EXCEPTION 'mailroom.browser_code(): binding is not of 16 bytes'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    INSERT INTO mailroom.browser_codes AS known (binding, code, expires_at)
    VALUES (browser_code.binding, mailroom.generate_code(5), epoch + 86400)
    ON CONFLICT ON CONSTRAINT browser_codes_pkey DO UPDATE
    SET code = CASE WHEN known.tries < 5 AND known.expires_at > epoch THEN known.code
        ELSE excluded.code END,
        tries = CASE WHEN known.tries < 5 AND known.expires_at > epoch THEN known.tries
            ELSE 0::smallint END,
        expires_at = excluded.expires_at
    RETURNING code INTO shown;

    -- A visitor without cookies leaves a row at each call. Two go for one that comes, so that there
    -- are no more than a day has, also where nobody prunes. Afterwards, so that no two calls wait
    -- for each other's rows; in order, so that the index leads to them.
    DELETE FROM mailroom.browser_codes AS known
    WHERE known.binding = ANY (ARRAY(
        SELECT past.binding FROM mailroom.browser_codes AS past
        WHERE past.expires_at < epoch
        ORDER BY past.expires_at
        LIMIT 2
        FOR UPDATE SKIP LOCKED
    ));

    RETURN shown;
END;
$$;

COMMENT ON FUNCTION mailroom.browser_code(bytea) IS
    'Digits for that browser to show, and for no mail: whoever enters them may use the links that '
    'are bound to it in another browser, for actions without a code. The same for a day from the '
    'last call, or until five codes were entered: then others.';

-- Tokens that end before they are used.

-- Collectors do not wait for a payload that an open transaction deletes.
CREATE FUNCTION mailroom.delete_payloads(tokens bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    DELETE FROM mailroom.payloads
    WHERE token = ANY (ARRAY(
        SELECT token FROM mailroom.payloads WHERE token = ANY (tokens) FOR UPDATE SKIP LOCKED
    ));
END;
$$;

COMMENT ON FUNCTION mailroom.delete_payloads(bigint[]) IS
    'Deletes the payloads of tokens, but for those that somebody else has locked.';

-- The secrets of tokens that are used or void go with their rows; those of leases go when the batch
-- is settled, in a moment. Nothing is waited for: a row that a collector is just claiming, or an
-- operator putting back, is taken away by the next claim, which finds the token used or cancelled.
CREATE FUNCTION mailroom.withdraw(gone bigint[], reason text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
BEGIN
    WITH withdrawn AS (
        DELETE FROM mailroom.queue
        WHERE token = ANY (ARRAY(SELECT token FROM mailroom.queue
            WHERE token = ANY (gone) FOR UPDATE SKIP LOCKED))
        RETURNING token, attempts
    )
    INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome, reason)
    SELECT ARRAY[token], mailroom.clock(), attempts, 'cancelled', withdraw.reason
    FROM withdrawn
    WHERE withdraw.reason IS NOT NULL;

    PERFORM mailroom.delete_payloads(gone);

    -- Not `secret IS NOT NULL`, which is the condition of an index by expiry: a plan that was made
    -- for an empty table would use that index, and read all of it.
    UPDATE mailroom.dead_letters
    SET secret = NULL, code = NULL
    WHERE token = ANY (ARRAY(
        SELECT token FROM mailroom.dead_letters
        WHERE token = ANY (gone) AND coalesce(secret, '') <> ''
        FOR UPDATE SKIP LOCKED
    ));

    -- Its mail may still go out, and its verdict is waited for.
    UPDATE mailroom.handed_over
    SET secret = NULL, code = NULL
    WHERE token = ANY (ARRAY(
        SELECT token FROM mailroom.handed_over
        WHERE token = ANY (gone) AND coalesce(secret, '') <> ''
        FOR UPDATE SKIP LOCKED
    ));
END;
$$;

COMMENT ON FUNCTION mailroom.withdraw(bigint[], text) IS
    'Takes tokens out of the queue, with their secrets and payloads, and logs why, '
    'if a reason is given.';

-- What has not expired can be used, and of a dead letter a new link would be made, even if it has.
CREATE FUNCTION mailroom.living_tokens(tokens bigint[], epoch bigint) RETURNS bigint[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
BEGIN
    RETURN ARRAY(
        SELECT known.id
        FROM mailroom.issued_tokens AS known
        WHERE known.id = ANY (tokens)
            AND known.consumed_at IS NULL
            AND known.cancelled_at IS NULL
            AND (
                known.expires_at > epoch
                OR EXISTS (
                    SELECT FROM mailroom.dead_letters AS letter WHERE letter.token = known.id
                )
            )
    );
END;
$$;

COMMENT ON FUNCTION mailroom.living_tokens(bigint[], bigint) IS
    'Those of the tokens that can be used at this second, or be put back.';

CREATE FUNCTION mailroom.cancel(token bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    epoch bigint := floor(extract(epoch FROM mailroom.clock()));
    living bigint[];
BEGIN
    -- A statement of its own: whether its dead letter was put back while this waited is seen by one
    -- that begins later.
    PERFORM FROM mailroom.issued_tokens WHERE id = cancel.token FOR NO KEY UPDATE;

    living := mailroom.living_tokens(ARRAY[cancel.token], epoch);
    UPDATE mailroom.issued_tokens SET cancelled_at = epoch WHERE id = ANY (living);

    IF FOUND THEN
        PERFORM mailroom.withdraw(ARRAY[cancel.token], 'the application cancelled it');
        RETURN true;
    END IF;

    RETURN false;
END;
$$;

COMMENT ON FUNCTION mailroom.cancel(bigint) IS
    'Ends a token that can still be used, or be put back: its mail is not sent any more, and its '
    'link is no longer good. Answers whether it could.';

-- Ascending, as all do that wait for more than one token. No index has this order: a plan that was
-- made for a table without rows could read all that are there later, in the order of their key.
-- Whoever goes on to lock one token that may have been used meanwhile names it here: those who
-- waited for it before it was used hold it, and wait for the others.
CREATE FUNCTION mailroom.lock_links(subject_id text, own bigint) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM mailroom.issued_tokens AS tokens
    WHERE tokens.id = lock_links.own
        OR (
            tokens.subject_id = lock_links.subject_id
            AND tokens.consumed_at IS NULL
            AND tokens.cancelled_at IS NULL
        )
    ORDER BY tokens.id + 0
    FOR NO KEY UPDATE;

    -- Those that were made while this waited are seen by a statement that begins later. They can
    -- come before those that are locked, so that nothing is waited for here: what others hold
    -- by now was made after this began.
    RETURN ARRAY(
        SELECT tokens.id
        FROM mailroom.issued_tokens AS tokens
        WHERE tokens.subject_id = lock_links.subject_id
            AND tokens.consumed_at IS NULL
            AND tokens.cancelled_at IS NULL
        ORDER BY tokens.id + 0
        FOR NO KEY UPDATE SKIP LOCKED
    );
END;
$$;

COMMENT ON FUNCTION mailroom.lock_links(text, bigint) IS
    'Locks the tokens of a subject that were neither used nor cancelled, and answers their ids; '
    'locks the one that is named as well.';

CREATE FUNCTION mailroom.cancel_subject(subject_id text, only_proofs boolean DEFAULT false)
    RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    epoch bigint := floor(extract(epoch FROM mailroom.clock()));
    locked bigint[] := mailroom.lock_links(subject_id, NULL::bigint);
    living bigint[] := mailroom.living_tokens(locked, epoch);
    ended bigint[];
    usable integer;
BEGIN
    WITH ended AS (
        UPDATE mailroom.issued_tokens AS tokens
        SET cancelled_at = epoch
        WHERE id = ANY (living)
            AND (NOT only_proofs OR action IN (SELECT number FROM mailroom.actions
                WHERE proves_address OR name = 'change_email'))
        RETURNING id, expires_at
    )
    SELECT array_agg(id), count(*) FILTER (WHERE expires_at > epoch)
    INTO ended, usable
    FROM ended;

    IF ended IS NOT NULL THEN
        PERFORM mailroom.withdraw(ended, 'the application cancelled the tokens of its subject');
    END IF;

    RETURN usable;
END;
$$;

COMMENT ON FUNCTION mailroom.cancel_subject(text, boolean) IS
    'Ends the tokens of a subject that can still be used; with only_proofs those that prove its '
    'address and those that would change it, for when it changes. Answers how many.';

CREATE FUNCTION mailroom.recheck(subject_id text) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    rechecked integer;
BEGIN
    -- As new rows: a claim in between, which deletes them, is waited for, and a collector that
    -- sleeps is woken. By a clock that is read when the transaction has its number,
    -- as peek() needs it.
    WITH deferred AS (
        -- By an array: a join could read the whole queue.
        DELETE FROM mailroom.queue
        WHERE token = ANY (ARRAY(
                SELECT id FROM mailroom.issued_tokens AS tokens
                WHERE tokens.subject_id = recheck.subject_id
            ))
            AND deferrals > 0
        RETURNING *
    )
    INSERT INTO mailroom.queue (
        token, due_at, attempts, failures, priority, secret, code, waits_since, doubts
    )
    SELECT
        token, mailroom.clock(), attempts, failures, priority, secret, code, waits_since, doubts
    FROM deferred
    ON CONFLICT DO NOTHING;

    GET DIAGNOSTICS rechecked = ROW_COUNT;
    RETURN rechecked;
END;
$$;

COMMENT ON FUNCTION mailroom.recheck(text) IS
    'Has the deferred tokens of a subject looked at again at once; for triggers, when a subject '
    'may have become eligible. Answers how many.';

-- Who may get and use mails of an action, by a function that the application names.

-- Volatile, so that no plan puts the body of a function in the place of its call.
CREATE FUNCTION mailroom.refuse_predicate(predicate text) RETURNS text[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION
        '% is no SECURITY DEFINER function that returns rows (subject_id text, email text, '
        'name text)', predicate
        USING ERRCODE = 'object_not_in_prerequisite_state';
END;
$$;

COMMENT ON FUNCTION mailroom.refuse_predicate(text) IS
    'Says that a function cannot be asked who is eligible.';

-- Looked up for each call: whoever owns the function may have made it anew since it was named. Its
-- definition is looked at once more when its arguments are computed, just before it runs, and twice
-- there: the second time finds everything in the session's caches, and the call most likely, too.
-- The flag has its type, so that no overload of other types is called.
CREATE FUNCTION mailroom.predicate_call(predicate text, is_redemption boolean) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    callable oid := predicate::regprocedure;
BEGIN
    IF NOT mailroom.is_predicate(callable) THEN
        PERFORM mailroom.refuse_predicate(predicate);
    END IF;

    RETURN format(
        '%1$s(
            CASE WHEN mailroom.is_definer(pg_catalog.pg_get_functiondef(%2$s))
                AND mailroom.is_definer(pg_catalog.pg_get_functiondef(%2$s))
            THEN $1 ELSE mailroom.refuse_predicate(%3$L) END,
            %4$L::pg_catalog.bool
        )',
        callable::regproc, callable, predicate, is_redemption
    );
END;
$$;

COMMENT ON FUNCTION mailroom.predicate_call(text, boolean) IS
    'SQL that asks a function of eligibility for the subjects $1, with the rights of its own '
    'owner.';

-- The type is looked at beside the value: a function that was made anew just now could return
-- another one, with a cast of its owner's that would run with the rights of Mailroom's owner.
CREATE FUNCTION mailroom.text_column(name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN format(
    'CASE WHEN pg_catalog.pg_typeof(%1$I) OPERATOR(pg_catalog.=) ''text''::pg_catalog.regtype'
        ' THEN %1$I::pg_catalog.text END AS %1$I',
    name
);

COMMENT ON FUNCTION mailroom.text_column(text) IS
    'SQL for a column of what a function of eligibility returns: null unless it is a text.';

-- In a block of its own, so that an error of the application's function is the mail's alone; a lock
-- that it waits for, a failed assertion and the caller's statement_timeout are errors, too. Once
-- one has taken so long, the others are not asked. It may join as it likes, whatever its caller's
-- plan must not. Fewer rows are declared than claims pick, so that their plan hashes the answers.
CREATE FUNCTION mailroom.ask_eligibility(predicate text, subject_ids text[], OUT subject_id text,
    OUT email text, OUT name text, OUT fault text)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE ROWS 2
SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off
SET enable_nestloop = on SET enable_mergejoin = on SET lock_timeout = 300 AS $$
DECLARE
    answered text[];
    emails text[];
    names text[];
BEGIN
    IF clock_timestamp() > statement_timestamp() + interval '4 seconds' THEN
        RETURN QUERY
        SELECT id, NULL::text, NULL::text, format('%s is not asked, because another one takes too '
            'long', predicate)
        FROM pg_catalog.unnest(subject_ids) AS id;
        RETURN;
    END IF;

    -- Those of accounts by a plan that is kept: a dynamic statement is planned at each call.
    IF predicate = 'mailroom.provisioned_accounts(text[],boolean)' THEN
        RETURN QUERY
        SELECT answer.*, NULL::text FROM mailroom.provisioned_accounts(subject_ids, false)
            AS answer;
        RETURN;
    ELSIF predicate = 'mailroom.active_accounts(text[],boolean)' THEN
        RETURN QUERY
        SELECT answer.*, NULL::text FROM mailroom.active_accounts(subject_ids, false) AS answer;
        RETURN;
    END IF;

    -- In a transaction of its own that is taken back: a claim keeps nothing of what the function
    -- did to the session, such as another search path. One answer a subject,
    -- however many there are.
    BEGIN
        EXECUTE format(
            'SELECT array_agg(subject_id), array_agg(email), array_agg(name)
            FROM (SELECT DISTINCT ON (1) %1$s, %2$s, %3$s FROM %4$s) AS answer',
            mailroom.text_column('subject_id'), mailroom.text_column('email'),
                mailroom.text_column('name'),
            mailroom.predicate_call(predicate, false)
        )
        INTO answered, emails, names
        USING subject_ids;

        RAISE EXCEPTION USING ERRCODE = 'MRASK';
    EXCEPTION WHEN SQLSTATE 'MRASK' THEN
        NULL;
    END;

    RETURN QUERY
    SELECT answer.*, NULL::text
    FROM ROWS FROM (
        pg_catalog.unnest(answered), pg_catalog.unnest(emails), pg_catalog.unnest(names)
    ) AS answer;
EXCEPTION WHEN OTHERS OR assert_failure OR query_canceled THEN
    -- One subject whom the function fails for, such as an id that it cannot cast, must not keep the
    -- others waiting: each half is asked alone, for two of the four seconds. A lock, a time-out, a
    -- function or right that is missing says nothing of a subject.
    IF cardinality(subject_ids) > 1
        AND left(SQLSTATE, 2) NOT IN ('0A', '25', '28', '3F', '40', '42', '53', '54', '55', '57',
            '58', 'XX')
        AND clock_timestamp() < statement_timestamp() + interval '2 seconds'
    THEN
        RETURN QUERY
        SELECT half.*
        FROM mailroom.ask_eligibility(predicate, subject_ids[:cardinality(subject_ids) / 2]) AS half
        UNION ALL
        SELECT half.*
        FROM mailroom.ask_eligibility(predicate, subject_ids[cardinality(subject_ids) / 2 + 1:])
            AS half;
        RETURN;
    END IF;

    -- Not its message, which may quote a row. What a conversion says of one subject alone is not a
    -- fault of the function.
    RETURN QUERY
    SELECT id, NULL::text, NULL::text,
        format(
            CASE
                WHEN cardinality(subject_ids) = 1
                    AND SQLSTATE IN ('22P02', '22003', '22007', '22008')
                THEN '%s cannot convert the id of the subject, or another value of it (SQLSTATE %s)'
                ELSE '%s fails with SQLSTATE %s'
            END,
            predicate, SQLSTATE
        )
    FROM pg_catalog.unnest(subject_ids) AS id;
END;
$$;

COMMENT ON FUNCTION mailroom.ask_eligibility(text, text[]) IS
    'Which of the subjects may get an action''s mails, by its eligibility function. Those whom it '
    'fails for are among them, each with the fault.';

-- Mails that say what has happened: that a token was used, that an address was changed, or that
-- many wrong codes were typed. They are made in the transaction in which it happens.

-- Never fails where a mail could not be sent, since what it tells of must not depend on it. One
-- that this transaction has made already is not made again: where an account's address is changed
-- with a token, both the token and the account tell of it. Its payload is there as long as nobody
-- can have claimed it, and rows of a part of the transaction that can be rolled back alone are
-- younger than the transaction.
CREATE FUNCTION mailroom.notify(
    action text,
    recipient_email text,
    recipient_name text,
    subject_id text,
    language text,
    about text
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    wanted mailroom.actions%ROWTYPE;
    said jsonb := jsonb_build_object('about', notify.about);
    address text := mailroom.normal_address(notify.recipient_email);
BEGIN
    SELECT * INTO wanted FROM mailroom.actions
    WHERE name = notify.action AND path IS NULL AND NOT is_retired;

    IF wanted.number IS NULL
        OR address IS NULL
        OR mailroom.is_address(notify.recipient_email) IS NOT TRUE
        OR notify.subject_id IS NULL AND wanted.eligibility IS NOT NULL
        OR EXISTS (
            SELECT
            FROM mailroom.issued_tokens AS tokens
            JOIN mailroom.payloads ON token = id
            WHERE tokens.subject_id = notify.subject_id
                AND tokens.action = wanted.number
                AND age(tokens.xmin) <= 0
                AND payload = said
                AND mailroom.normal_address(tokens.recipient_email) = address
        )
    THEN
        RETURN;
    END IF;

    PERFORM mailroom.enqueue(
        wanted.name, notify.recipient_email, notify.recipient_name, notify.subject_id, said,
        notify.language, NULL::timestamptz, NULL::text, NULL::bytea, NULL::text,
        NULL::text
    );
END;
$$;

COMMENT ON FUNCTION mailroom.notify(text, text, text, text, text, text) IS
    'Queues a notice in this transaction, unless it has made the same one already, or there is no '
    'such action or address.';

CREATE FUNCTION mailroom.notify_of_use(
    used mailroom.issued_tokens, wanted mailroom.actions, present_email text
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- A token that proves no address was mailed to one that may not be its subject's yet.
    IF wanted.notice IS NOT NULL AND (used.notice_recipient IS NOT NULL OR wanted.proves_address)
    THEN
        PERFORM mailroom.notify(
            wanted.notice,
            coalesce(used.notice_recipient, used.recipient_email, present_email),
            used.recipient_name,
            used.subject_id,
            used.language,
            CASE wanted.name
                WHEN 'recover' THEN 'recovered'
                WHEN 'change_email' THEN 'email_changed'
                ELSE wanted.name
            END
        );
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.notify_of_use(mailroom.issued_tokens, mailroom.actions, text) IS
    'Queues the notice that a token was used, if its action has one.';

-- The time is kept in one row of the subject, which is locked after that of the other browsers.
CREATE FUNCTION mailroom.notify_of_codes(
    tried mailroom.issued_tokens, for_subject text, epoch bigint
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    named text := (SELECT code_notice FROM mailroom.actions WHERE number = tried.action);
BEGIN
    IF named IS NULL THEN
        RETURN;
    END IF;

    INSERT INTO mailroom.code_failures AS counted (subject, failures, rests_until, noticed_at)
    VALUES (for_subject, 0, epoch, epoch)
    ON CONFLICT ON CONSTRAINT code_failures_pkey DO UPDATE SET noticed_at = excluded.noticed_at
        WHERE (counted.noticed_at > epoch - 86400) IS NOT TRUE;

    IF FOUND THEN
        PERFORM mailroom.notify(
            named, coalesce(tried.notice_recipient, tried.recipient_email), tried.recipient_name,
            tried.subject_id, tried.language, 'wrong_codes'
        );
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.notify_of_codes(mailroom.issued_tokens, text, bigint) IS
    'Queues the notice of wrong codes, if the action of the token has one and the subject got none '
    'within a day.';

-- What an attempt ends with, and when a token that comes back of a lease is tried again.

-- The columns of a lease are arrays. Neither volatile nor with a SET clause, so that it is inlined:
-- given the row of a CTE, `ended::mailroom.leases`, not one that RETURNING has made a value of, all
-- of which a sort would copy for each token.
CREATE FUNCTION mailroom.leased_tokens(lease mailroom.leases)
    RETURNS TABLE (
        token bigint, attempt integer, failures smallint, priority smallint, secret bytea,
        code text, waits_since timestamptz, doubts smallint
    )
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT
        item.token, item.attempt, item.failures, item.priority, item.secret,
        item.code, item.waits_since, coalesce(item.doubts, 0::smallint)
    FROM ROWS FROM (
        unnest(lease.tokens),
        unnest(lease.attempts),
        unnest(lease.failures),
        unnest(lease.priorities),
        unnest(lease.secrets),
        unnest(lease.codes),
        unnest(lease.waits_since),
        unnest(lease.doubts)
    ) AS item (token, attempt, failures, priority, secret, code, waits_since, doubts);
END;

COMMENT ON FUNCTION mailroom.leased_tokens(mailroom.leases) IS
    'The tokens of a lease, a row each, with what the queue will need of those that come back.';

-- Doubling from the first pause up to a minute, or to a part of its life, up to an hour; between
-- half and all of that, so that what failed together does not come back together.
CREATE FUNCTION mailroom.pause_after(refusals bigint, first_pause bigint, lifetime double precision)
    RETURNS double precision
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN least(
    first_pause::double precision * power(2::double precision, refusals::double precision),
    greatest(
        first_pause::double precision,
        60000::double precision,
        least(lifetime * 1000::double precision / 24::double precision, 3600000::double precision)
    )
) * (0.5::double precision + random() / 2::double precision);

COMMENT ON FUNCTION mailroom.pause_after(bigint, bigint, double precision) IS
    'Pause in milliseconds after so many refusals; the first pause is in milliseconds, the '
    'lifetime in seconds.';

-- No longer than the token lives: what expires before its pause is over waits until then, so that
-- it is counted then.
CREATE FUNCTION mailroom.pause_before_retry(
    kind text,
    wait bigint,
    doubts smallint,
    refusals bigint,
    backoff bigint,
    lifetime double precision
) RETURNS double precision
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN CASE
    WHEN wait IS NOT NULL OR kind IN ('retry', 'failed', 'in_doubt') THEN least(
        lifetime * 1000::double precision,
        CASE
            WHEN kind = 'in_doubt' AND doubts = 1::smallint THEN 60000::double precision
            WHEN kind = 'in_doubt' THEN 300000::double precision
            -- Others come first. At least a thousandth of its life, so that a token of days is not
            -- tried all the time, but of that at most a minute: it may be the outage's fault, which
            -- can be over any moment.
            WHEN kind = 'unavailable' AND wait > 1000::bigint
                THEN greatest(wait::double precision, least(lifetime, 60000::double precision))
            -- As the sender wants it, within a day.
            WHEN wait IS NOT NULL THEN least(wait, 86400000::bigint)::double precision
            ELSE mailroom.pause_after(refusals, backoff, lifetime)
        END
    )
END;

COMMENT ON FUNCTION mailroom.pause_before_retry(text, bigint, smallint, bigint, bigint,
    double precision) IS
    'For how many milliseconds a token waits that comes back; null if it comes back to its place. '
    'wait, what the sender asked for, and backoff are in milliseconds, the lifetime in seconds.';

-- Stable, not immutable: as the cast of a text to an enumeration is, without which this would not
-- be inlined.
CREATE FUNCTION mailroom.outcome_of(
    kind text,
    failures smallint,
    doubts smallint,
    max_attempts integer,
    is_deleted boolean,
    is_open boolean
) RETURNS mailroom.outcome
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE
    WHEN kind IS NULL THEN 'sent'
    -- Nobody is to get it any more.
    WHEN is_deleted THEN 'cancelled'
    -- Who has used the link has the mail.
    WHEN kind = 'in_doubt' AND doubts >= 3::smallint AND NOT is_open THEN 'cancelled'
    WHEN kind = 'in_doubt' AND doubts >= 3::smallint THEN 'dead'
    WHEN kind = 'failed' AND failures::integer + 1 >= max_attempts THEN 'dead'
    WHEN kind = 'failed' THEN 'retry'
    WHEN kind = 'unknown_address' THEN 'dead'
    WHEN kind IN ('unavailable', 'untried') THEN 'unanswered'
    ELSE kind::mailroom.outcome
END;

COMMENT ON FUNCTION mailroom.outcome_of(text, smallint, smallint, integer, boolean, boolean) IS
    'How an attempt ended of which a collector says this. failures are those before it, doubts '
    'include it; a token is open that was neither used nor cancelled.';

CREATE FUNCTION mailroom.doubtful(reason text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 'may have been delivered' || coalesce(': ' || reason, '');

COMMENT ON FUNCTION mailroom.doubtful(text) IS
    'Why a token is given up of which nobody knows whether it was delivered.';

-- Batches of which not all tokens were sent: what becomes of each token, and where it goes.

CREATE TYPE mailroom.settled_token AS (
    collector_id bigint,
    batch uuid,
    -- Of the lease.
    due_at timestamptz,
    token bigint,
    attempt integer,
    -- With this attempt, as the doubts.
    failures smallint,
    priority smallint,
    secret bytea,
    code text,
    waits_since timestamptz,
    doubts smallint,
    expires_at bigint,
    -- Whether its link is still good: otherwise its secret is not kept.
    is_usable boolean,
    kind text,
    outcome mailroom.outcome,
    reason text,
    -- As pause_before_retry() answers it.
    pause double precision
);

COMMENT ON TYPE mailroom.settled_token IS
    'A token whose lease has ended, and what becomes of it.';

-- Nothing is written of a batch whose lease is gone: it was settled, released or taken over.
CREATE FUNCTION mailroom.end_leases(
    settled uuid[],
    exception_batches uuid[],
    exception_tokens bigint[],
    exception_kinds text[],
    exception_waits bigint[],
    exception_reasons text[],
    max_attempts integer,
    backoff bigint,
    expiry_bound bigint
) RETURNS mailroom.settled_token[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_memoize = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    answer mailroom.settled_token[];
BEGIN
    WITH
    ended AS (
        DELETE FROM mailroom.leases WHERE batch = ANY (settled) RETURNING *
    ),
    exceptions AS (
        SELECT *
        FROM ROWS FROM (
            pg_catalog.unnest(exception_batches),
            pg_catalog.unnest(exception_tokens),
            pg_catalog.unnest(exception_kinds),
            pg_catalog.unnest(exception_waits),
            pg_catalog.unnest(exception_reasons)
        ) AS exception (batch, token, kind, wait, reason)
    ),
    attempts AS (
        SELECT
            ended.collector_id,
            ended.batch,
            ended.due_at,
            leased.*,
            least(
                leased.doubts + CASE WHEN exceptions.kind = 'in_doubt' THEN 1 ELSE 0 END, 32767
            )::smallint AS all_doubts,
            exceptions.kind,
            exceptions.wait,
            exceptions.reason
        FROM ended
        CROSS JOIN LATERAL mailroom.leased_tokens(ended::mailroom.leases) AS leased
        LEFT JOIN exceptions
            ON exceptions.batch = ended.batch AND exceptions.token = leased.token
    )
    SELECT array_agg(settled_token::mailroom.settled_token) INTO answer
    FROM (
        SELECT
            collector_id,
            batch,
            due_at,
            token,
            attempt,
            CASE
                WHEN kind IN ('failed', 'dead', 'unknown_address')
                    THEN least(failures::integer + 1, 32767)::smallint
                ELSE failures
            END AS failures,
            priority,
            secret,
            code,
            waits_since,
            all_doubts,
            known.expires_at,
            known.is_open AND known.expires_at > expiry_bound AS is_usable,
            kind,
            mailroom.outcome_of(
                kind, failures, all_doubts, max_attempts, known.expires_at IS NULL, known.is_open
            ) AS outcome,
            reason,
            mailroom.pause_before_retry(
                kind, wait, all_doubts, earlier.refusals, backoff, known.lifetime
            ) AS pause
        FROM attempts
        -- Of those that were sent nothing has to be known.
        LEFT JOIN LATERAL (
            SELECT
                expires_at,
                consumed_at IS NULL AND cancelled_at IS NULL AS is_open,
                greatest(
                    expires_at::double precision - expiry_bound::double precision,
                    0::double precision
                ) AS lifetime
            FROM mailroom.issued_tokens
            WHERE id = attempts.token AND attempts.kind IS NOT NULL
        ) AS known ON true
        -- Not the failures, which a refusal need not be. A pause stops growing long before twenty.
        CROSS JOIN LATERAL (
            SELECT count(*) AS refusals
            FROM (
                SELECT
                FROM mailroom.delivery_log
                WHERE tokens[1] = attempts.token
                    AND outcome = 'retry'
                    AND attempts.kind IN ('retry', 'failed')
                LIMIT 20
            ) AS refusal
        ) AS earlier
    ) AS settled_token;

    RETURN answer;
END;
$$;

COMMENT ON FUNCTION mailroom.end_leases(uuid[], uuid[], bigint[], text[], bigint[], text[],
    integer, bigint, bigint) IS
    'Deletes the leases of batches, and answers what becomes of each of their tokens.';

-- Settles batches of which not all tokens were sent; answers which tokens were given up, also when
-- that is repeated. A refusal counts only where the collector says so, and an outage of the whole
-- sender never does: it would kill the mails of links that live a quarter of an hour. Tokens that
-- live long are tried again at most once an hour.
--
-- Kinds of exceptions:
-- - 'retry', for now;
-- - 'failed', also for now, but only max_attempts times;
-- - 'dead';
-- - 'unknown_address': dead, and its address is suppressed if the collector has the right to do so;
-- - 'unavailable': back to its place or after its wait, and no failure, because the sender was
--   away;
-- - 'untried': after its wait, and no failure, because the sender was there and has not tried the
--   mail;
-- - 'unanswered': back to its place;
-- - 'in_doubt': nobody knows whether the provider has the mail, so it is repeated after one and
--   after five minutes, however often it is refused between, and the third doubt makes it a dead
--   letter that may have been delivered;
-- - 'handed_over': a broker has it, and its verdict comes later.
--
-- Locks: the leases, by name; rows of queue, dead_letters and handed_over, which are new; payloads,
-- of which it waits for none. In this order.
CREATE FUNCTION mailroom.settle_exceptions(
    settled uuid[],
    exception_batches uuid[],
    exception_tokens bigint[],
    exception_kinds text[],
    exception_waits bigint[],
    exception_reasons text[],
    max_attempts integer,
    backoff bigint,
    expiry_bound bigint
) RETURNS TABLE (batch uuid, token bigint, attempt integer)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_memoize = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom.clock();
    -- The collector's own right: it calls this with the rights of the owner.
    suppresses boolean := 'unknown_address' = ANY (exception_kinds)
        AND has_function_privilege(
            session_user, to_regprocedure('mailroom.suppress(text, text, text, text)'), 'EXECUTE'
        ) IS TRUE;
    ended mailroom.settled_token[];
BEGIN
    -- As in settle(), which knows afterwards whether it has written anything.
    PERFORM pg_logical_emit_message(true, 'mailroom', '');

    ended := mailroom.end_leases(
        settled, exception_batches, exception_tokens, exception_kinds, exception_waits,
        exception_reasons, max_attempts, backoff, expiry_bound
    );

    INSERT INTO mailroom.queue (
        token, due_at, attempts, failures, priority, put_off_at, secret, code, waits_since, doubts
    )
    SELECT
        token,
        CASE
            -- To its place, which lies in the future only if the clock was set back.
            WHEN pause IS NULL THEN least(due_at, mailroom.clock())
            ELSE epoch + interval '1 millisecond' * pause
        END,
        attempt,
        failures,
        priority,
        CASE WHEN pause IS NOT NULL THEN epoch END,
        secret,
        code,
        -- A refusal of its own is no outage: it waits anew. What is in doubt waits until it is
        -- known or listed.
        CASE WHEN kind <> 'retry' OR doubts > 0 THEN coalesce(waits_since, due_at) END,
        doubts
    FROM pg_catalog.unnest(ended)
    WHERE outcome IN ('retry', 'unanswered', 'in_doubt')
    ON CONFLICT DO NOTHING;

    -- Most settlements make no such rows, and even reading the tokens takes time.
    IF exception_kinds && ARRAY['dead', 'unknown_address', 'failed', 'in_doubt'] THEN
        INSERT INTO mailroom.dead_letters (
            token, died_at, expires_at, attempts, failures, priority, secret, code, reason, doubts,
            is_suppressed
        )
        SELECT
            token,
            epoch,
            expires_at,
            attempt,
            failures,
            priority,
            CASE WHEN is_usable THEN secret END,
            CASE WHEN is_usable THEN code END,
            CASE kind WHEN 'in_doubt' THEN mailroom.doubtful(reason) ELSE coalesce(reason, '') END,
            doubts,
            kind = 'unknown_address' AND suppresses
        FROM pg_catalog.unnest(ended)
        WHERE outcome = 'dead'
        ON CONFLICT DO NOTHING;
    END IF;

    IF 'handed_over' = ANY (exception_kinds) THEN
        INSERT INTO mailroom.handed_over (
            token, handed_over_at, expires_at, attempts, failures, priority, secret, code, doubts
        )
        SELECT
            token,
            epoch,
            expires_at,
            attempt,
            failures,
            priority,
            CASE WHEN is_usable THEN secret END,
            CASE WHEN is_usable THEN code END,
            doubts
        FROM pg_catalog.unnest(ended)
        WHERE outcome = 'handed_over'
        ON CONFLICT DO NOTHING;
    END IF;

    PERFORM mailroom.delete_payloads(ARRAY(
        SELECT token FROM pg_catalog.unnest(ended) WHERE outcome IN ('sent', 'cancelled')
    ));

    INSERT INTO mailroom.delivery_log (
        tokens, happened_at, collector_id, batch, attempt, outcome, reason
    )
    SELECT
        ARRAY[token],
        epoch,
        collector_id,
        batch,
        attempt,
        outcome,
        CASE
            -- Nothing new is kept of it.
            WHEN kind IS NOT NULL AND expires_at IS NULL THEN 'it was deleted'
            WHEN kind = 'in_doubt' AND outcome = 'dead' THEN mailroom.doubtful(reason)
            ELSE reason
        END
    FROM pg_catalog.unnest(ended);

    -- No mail waits for an application that suppresses the same address and does not commit, nor
    -- for another collector. Where that one rolls back, the next mail is refused again.
    IF suppresses THEN
        PERFORM mailroom.try_suppress(known.recipient_email, log.reason)
        FROM ROWS FROM (
            pg_catalog.unnest(exception_tokens), pg_catalog.unnest(exception_kinds)
        ) AS exception (token, kind)
        JOIN mailroom.delivery_log AS log
            ON tokens[1] = exception.token AND outcome = 'dead' AND log.batch = ANY (settled)
        JOIN mailroom.issued_tokens AS known ON known.id = exception.token
        WHERE exception.kind = 'unknown_address' AND mailroom.is_address(known.recipient_email);
    END IF;

    -- From the log, not from what was just done: where the connection broke before the answer, the
    -- same is settled again, and the leases are gone. A statement of its own, since only such a one
    -- sees what was committed while this waited for the leases.
    RETURN QUERY
    SELECT batch, tokens[1], attempt
    FROM mailroom.delivery_log
    WHERE tokens[1] = ANY (exception_tokens) AND batch = ANY (settled) AND outcome = 'dead'
    ORDER BY 1, 2;
END;
$$;

COMMENT ON FUNCTION mailroom.settle_exceptions(uuid[], uuid[], bigint[], text[], bigint[], text[],
    integer, bigint, bigint) IS
    'Settles batches of which not all tokens were sent, and answers which tokens were given up.';

-- What providers said of the mails that they accepted.

-- Addresses are kept as a hash with a key that only the owner reads: whoever reads a receipt can
-- neither read the address nor try addresses.
CREATE FUNCTION mailroom.address_hash(address text, key bytea) RETURNS bytea
LANGUAGE sql STABLE
RETURN substr(sha256(key || mailroom.to_utf8(mailroom.normal_address(address))), 1, 16);

COMMENT ON FUNCTION mailroom.address_hash(text, bytea) IS
    'By which receipts know an address: 16 bytes, with the key of the installation.';

-- The leases are locked, so that a settlement that is repeated while the first one commits
-- keeps nothing twice.
CREATE FUNCTION mailroom.keep_receipts(
    receipt_batches uuid[],
    receipt_tokens bigint[],
    receipt_providers text[],
    receipt_message_ids text[],
    receipt_answers text[]
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    key bytea := (SELECT address_key FROM mailroom.installation);
BEGIN
    WITH
    held AS MATERIALIZED (
        SELECT batch, tokens, attempts FROM mailroom.leases
            WHERE batch = ANY (receipt_batches) FOR UPDATE
    ),
    -- By itself, so that it is joined by hashes and not read again for each receipt of its batch.
    item AS MATERIALIZED (
        SELECT held.batch, each.token, each.attempt
        FROM held
        CROSS JOIN LATERAL ROWS FROM (
            pg_catalog.unnest(held.tokens), pg_catalog.unnest(held.attempts)
        ) AS each (token, attempt)
    )
    INSERT INTO mailroom.receipts (
        token, attempt, accepted_at, action, provider, message_id, answer, address_hash
    )
    SELECT
        item.token, item.attempt, mailroom.clock(), known.action, receipt.provider,
        left(receipt.message_id, 200), left(receipt.answer, 200),
        mailroom.address_hash(known.recipient_email, key)
    FROM item
    JOIN ROWS FROM (
        pg_catalog.unnest(receipt_batches), pg_catalog.unnest(receipt_tokens),
        pg_catalog.unnest(receipt_providers), pg_catalog.unnest(receipt_message_ids),
        pg_catalog.unnest(receipt_answers)
    ) AS receipt (batch, token, provider, message_id, answer)
        ON receipt.batch = item.batch AND receipt.token = item.token
    -- Of a token that was deleted meanwhile none is kept: its subject may have been forgotten.
    -- OFFSET 0 keeps this a look-up by primary key for each row.
    CROSS JOIN LATERAL (
        SELECT action, recipient_email FROM mailroom.issued_tokens WHERE id = item.token OFFSET 0
    ) AS known;
END;
$$;

COMMENT ON FUNCTION mailroom.keep_receipts(uuid[], bigint[], text[], text[], text[]) IS
    'Keeps what providers said of mails that they accepted, of batches that are still leased.';

-- Collectors settle batches, of which they say what became of each token, or release them. Whoever
-- has a collector's password reads what is due and nothing else: neither addresses nor secrets of
-- used tokens.

-- Locks: rows of leases by name, which waits for somebody who takes one over.
CREATE FUNCTION mailroom.settle(
    settled uuid[],
    exception_batches uuid[],
    exception_tokens bigint[],
    exception_kinds text[],
    exception_waits bigint[],
    exception_reasons text[],
    max_attempts integer,
    backoff bigint,
    min_lifetime bigint,
    receipt_batches uuid[] DEFAULT '{}',
    receipt_tokens bigint[] DEFAULT '{}',
    receipt_providers text[] DEFAULT '{}',
    receipt_message_ids text[] DEFAULT '{}',
    receipt_answers text[] DEFAULT '{}'
) RETURNS TABLE (batch uuid, token bigint, attempt integer)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    -- First, while the leases are there.
    IF pg_catalog.cardinality(receipt_tokens) > 0 THEN
        PERFORM mailroom.keep_receipts(
            receipt_batches, receipt_tokens, receipt_providers, receipt_message_ids, receipt_answers
        );
    END IF;

    IF pg_catalog.cardinality(exception_tokens) > 0 THEN
        RETURN QUERY
        SELECT *
        FROM mailroom.settle_exceptions(
            settled, exception_batches, exception_tokens, exception_kinds, exception_waits,
                exception_reasons, max_attempts,
            backoff, mailroom.expiry_bound(mailroom.clock(), min_lifetime)
        );
        RETURN;
    END IF;

    WITH gone AS (
        DELETE FROM mailroom.leases WHERE batch = ANY (settled) RETURNING *
    ),
    done AS (
        DELETE FROM mailroom.payloads
        WHERE token = ANY (ARRAY(
            SELECT token FROM mailroom.payloads
            WHERE token = ANY (ARRAY(SELECT pg_catalog.unnest(tokens) FROM gone WHERE has_payloads))
            FOR UPDATE SKIP LOCKED
        ))
    )
    INSERT INTO mailroom.delivery_log (tokens, happened_at, collector_id, batch, attempt, outcome)
    SELECT
        pg_catalog.array_agg(item.token), mailroom.clock(), collector_id, batch, item.attempt,
        'sent'
    FROM gone
    CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(tokens), pg_catalog.unnest(attempts))
        AS item (token, attempt)
    GROUP BY collector_id, batch, item.attempt, item.token / 256;

    -- A repeated settlement waits for what the first one waits for, such as a standby: a commit
    -- that has written nothing does not.
    IF NOT FOUND THEN
        PERFORM pg_logical_emit_message(true, 'mailroom', '');
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.settle(
    uuid[], uuid[], bigint[], text[], bigint[], text[], integer, bigint, bigint,
    uuid[], bigint[], text[], text[], text[]
) IS
    'For collectors: records what became of batches, and what providers said of accepted mails; '
    'answers which tokens were given up by that. Spans are milliseconds, '
    'but for min_lifetime, in seconds.';

CREATE FUNCTION mailroom.expiry_bound(epoch timestamptz, min_lifetime bigint) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN floor(extract(epoch FROM epoch))::bigint + greatest(min_lifetime, 1::bigint) - 1::bigint;

COMMENT ON FUNCTION mailroom.expiry_bound(timestamptz, bigint) IS
    'Tokens that expire at this second or before are not sent any more.';

-- Nothing of them was sent, so that was no delivery attempt.
CREATE FUNCTION mailroom.release(collector bigint, released uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    WITH ended AS (
        DELETE FROM mailroom.leases
        WHERE batch = ANY (released) AND collector_id = collector
        RETURNING *
    )
    INSERT INTO mailroom.queue (
        token, due_at, attempts, failures, priority, secret, code, waits_since, doubts
    )
    SELECT
        leased.token, least(ended.due_at, mailroom.clock()), leased.attempt - 1,
        leased.failures, leased.priority, leased.secret, leased.code, leased.waits_since,
        leased.doubts
    FROM ended
    CROSS JOIN LATERAL mailroom.leased_tokens(ended::mailroom.leases) AS leased
    ON CONFLICT DO NOTHING;
END;
$$;

COMMENT ON FUNCTION mailroom.release(bigint, uuid[]) IS
    'For collectors: gives batches back of which nothing was sent.';

-- One function uses a token up. It gets the race between two tabs, the expiry, the eligibility of
-- its subject and the tries of a code right.

CREATE TYPE mailroom.verdict AS ENUM (
    'ok', 'unknown', 'used', 'expired', 'not_eligible', 'too_many_attempts', 'wrong_code'
);

COMMENT ON TYPE mailroom.verdict IS
    'What redeem() answers, in the order in which it looks, ok apart.';

-- Both kinds of digits are checked together, as one try with one verdict: whoever has only one of
-- them does not learn whether it is right.
CREATE FUNCTION mailroom.count_code_attempt(
    candidate mailroom.issued_tokens,
    has_code boolean,
    is_other boolean,
    secret bytea,
    code text,
    browser_code text,
    epoch bigint
) RETURNS mailroom.verdict
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    for_subject text := coalesce(candidate.subject_id,
        mailroom.normal_address(candidate.recipient_email), candidate.recipient_email);
    rest_ends_at bigint;
    counted_failures integer;
    -- Null where no try is left.
    is_right boolean := true;
    is_shown boolean := true;
    answer mailroom.verdict;
BEGIN
    -- Locks the count before it is read: tries in parallel would all find it below a hundred.
    INSERT INTO mailroom.code_failures AS counted (subject, is_other_browser, failures, rests_until)
    VALUES (for_subject, is_other, 0, epoch)
    ON CONFLICT ON CONSTRAINT code_failures_pkey DO UPDATE SET failures = counted.failures
    RETURNING counted.rests_until INTO rest_ends_at;

    IF rest_ends_at > epoch THEN
        RETURN 'too_many_attempts';
    END IF;

    -- Not in constant time: to learn from how long bytes take to compare one needs far
    -- more than five tries.
    IF has_code THEN
        -- The next number, if one is left. In REPEATABLE READ and above a number that the
        -- transaction does not see taken fails as a serialization error.
        INSERT INTO mailroom.code_attempts (token, is_other_browser, ordinal, attempted_at)
        SELECT candidate.id, is_other, count(*) + 1, epoch
        FROM mailroom.code_attempts
        WHERE token = candidate.id AND is_other_browser = is_other
        HAVING count(*) < 5
        ON CONFLICT DO NOTHING
        RETURNING (candidate.code_hash = mailroom.code_hash(count_code_attempt.secret,
            count_code_attempt.code)) IS TRUE INTO is_right;
    END IF;

    IF is_other AND is_right IS NOT NULL THEN
        UPDATE mailroom.browser_codes AS shown
        SET tries = tries + 1
        WHERE binding = candidate.binding AND expires_at > epoch AND tries < 5
        RETURNING (shown.code = count_code_attempt.browser_code) IS TRUE INTO is_shown;
    END IF;

    answer := CASE
        WHEN is_right IS NULL OR is_shown IS NULL THEN 'too_many_attempts'
        WHEN is_right AND is_shown THEN 'ok'
        ELSE 'wrong_code'
    END;

    IF answer = 'wrong_code' THEN
        -- From the hundredth on: an hour, doubled by each that follows, up to a day.
        UPDATE mailroom.code_failures AS counted
        SET failures = counted.failures + 1,
            rests_until = CASE
                WHEN counted.failures >= 99
                THEN epoch + least(3600::bigint << least(counted.failures - 99, 5), 86400::bigint)
                ELSE epoch
            END
        WHERE subject = for_subject AND is_other_browser = is_other
        RETURNING counted.failures INTO counted_failures;

        IF counted_failures >= 100 THEN
            PERFORM mailroom.notify_of_codes(candidate, for_subject, epoch);
        END IF;
    ELSE
        -- A right one ends the count; where nothing was tried, the row is not left that was made
        -- above.
        DELETE FROM mailroom.code_failures
        WHERE subject = for_subject AND is_other_browser = is_other
            AND (answer = 'ok' OR failures = 0)
            AND (noticed_at > epoch - 86400) IS NOT TRUE;

        IF NOT FOUND AND answer = 'ok' THEN
            UPDATE mailroom.code_failures
            SET failures = 0
            WHERE subject = for_subject AND is_other_browser = is_other;
        END IF;
    END IF;

    RETURN answer;
END;
$$;

COMMENT ON FUNCTION mailroom.count_code_attempt(mailroom.issued_tokens, boolean, boolean, bytea,
    text, text, bigint) IS
    'Counts a try of a token''s code, of the digits that its browser shows, or of both, and '
    'answers what comes of it.';

-- Whoever has got in needs no other token that was asked for to the same end, and the next who
-- reads that mailbox must not have one either. And whoever has taken an account back need not fear
-- a change of its address that somebody else asked for.
CREATE FUNCTION mailroom.end_others(
    used mailroom.issued_tokens,
    wanted mailroom.actions,
    locked bigint[],
    epoch bigint
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    others bigint[];
    ended bigint[];
BEGIN
    IF NOT wanted.proves_address AND wanted.name <> 'recover' THEN
        RETURN;
    END IF;

    others := mailroom.living_tokens(pg_catalog.array_remove(locked, used.id), epoch);

    WITH ended AS (
        UPDATE mailroom.issued_tokens AS tokens
        SET consumed_at = epoch
        WHERE id = ANY (others)
            AND wanted.proves_address
            AND tokens.action = used.action
            AND tokens.recipient_email IS NOT DISTINCT FROM used.recipient_email
        RETURNING id
    )
    SELECT array_agg(id) INTO ended FROM ended;

    IF ended IS NOT NULL THEN
        PERFORM mailroom.withdraw(ended, 'another link that proves the same address was used');
    END IF;

    WITH ended AS (
        UPDATE mailroom.issued_tokens AS tokens
        SET cancelled_at = epoch
        WHERE id = ANY (others)
            AND wanted.name = 'recover'
            AND tokens.action = (SELECT number FROM mailroom.actions WHERE name = 'change_email')
        RETURNING id
    )
    SELECT array_agg(id) INTO ended FROM ended;

    IF ended IS NOT NULL THEN
        PERFORM mailroom.withdraw(
            ended, 'its subject was recovered, which ends changes of address'
        );
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.end_others(mailroom.issued_tokens, mailroom.actions, bigint[],
    bigint) IS
    'Ends what a use makes needless, of those that lock_links() has locked: tokens that prove the '
    'same address, and after a recovery changes of address.';

-- Locks, in this order: the subject's row, by the action's function; the token's row; then whatever
-- the application changes. Deleting an account takes the same order. Collectors wait for neither,
-- and lock the token's row only where a broker says late that its mail was sent.
-- Two redemptions in one transaction can wait for each other.
CREATE FUNCTION mailroom.use_token(
    secret bytea,
    action text,
    code text,
    binding_proven boolean,
    browser_code text,
    OUT verdict mailroom.verdict,
    OUT token bigint,
    OUT subject_id text
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    wanted mailroom.actions%ROWTYPE;
    candidate mailroom.issued_tokens%ROWTYPE;
    is_eligible boolean := true;
    is_other boolean;
    present_email text;
    locked bigint[];
    epoch bigint;
BEGIN
    verdict := 'unknown';

    -- Every other length would be found if such a row were there, but no link carries it.
    IF octet_length(use_token.secret) IS DISTINCT FROM 32 THEN
        RETURN;
    END IF;

    SELECT * INTO wanted FROM mailroom.actions WHERE name = use_token.action AND path IS NOT NULL;

    -- How long a look-up takes depends on how far the sought value agrees with those in the index:
    -- that must tell nothing about secrets, and tells nothing about them by their hash.
    SELECT * INTO candidate FROM mailroom.issued_tokens AS tokens
        WHERE consumed_id = mailroom.consumed_id(use_token.secret);

    -- A link for something else is not told from one that was never made.
    IF candidate.action IS DISTINCT FROM wanted.number OR candidate.id IS NULL THEN
        RETURN;
    END IF;

    -- A token never changes its subject, so what was read without a lock says whom to ask for.
    IF wanted.eligibility IS NOT NULL THEN
        EXECUTE format(
            'SELECT email FROM (SELECT %s, %s FROM %s) AS answer
            WHERE subject_id OPERATOR(pg_catalog.=) $1[1] COLLATE pg_catalog."C"',
            mailroom.text_column('subject_id'), mailroom.text_column('email'),
            mailroom.predicate_call(wanted.eligibility, true)
        )
        INTO present_email USING ARRAY[candidate.subject_id];

        -- The function may have changed it, and what follows must not find
        -- operators of its owner's.
        PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        is_eligible := present_email IS NOT NULL;
    END IF;

    -- Otherwise two calls for tokens of one subject would each lock its own and then wait for the
    -- other's: another action's, or cancel_subject(), ask no predicate, which would lock the
    -- subject first. What the application does with a change of address ends the others.
    IF wanted.proves_address OR wanted.name IN ('recover', 'change_email') THEN
        locked := mailroom.lock_links(candidate.subject_id, candidate.id);
    END IF;

    SELECT * INTO candidate FROM mailroom.issued_tokens AS tokens
        WHERE id = candidate.id FOR NO KEY UPDATE;

    -- Deleted while this call waited.
    IF candidate.id IS NULL THEN
        RETURN;
    END IF;

    -- Not the transaction's time, which may have begun long before: the token is checked by the
    -- second in which it is consumed.
    epoch := floor(extract(epoch FROM mailroom.clock()));
    is_other := candidate.binding IS NOT NULL AND use_token.binding_proven IS NOT TRUE;

    -- Whatever can be said without the code is said before it is looked at: a verdict on the code
    -- says nothing else, and no other verdict says anything about the code. Addresses are compared
    -- as well as their tokens cancelled by a change: a transaction of a stricter isolation level
    -- that changed one may not have seen the token.
    IF candidate.consumed_at IS NOT NULL THEN
        verdict := 'used';
    ELSIF epoch >= candidate.expires_at
        OR candidate.cancelled_at IS NOT NULL
        OR (
            wanted.proves_address
            AND candidate.recipient_email <> present_email COLLATE "C"
            AND mailroom.normal_address(candidate.recipient_email) IS DISTINCT
                FROM mailroom.normal_address(present_email)
        ) IS TRUE
    THEN
        verdict := 'expired';
    ELSIF NOT is_eligible THEN
        verdict := 'not_eligible';
    ELSIF wanted.code_digits = 0 AND use_token.code IS NOT NULL THEN
        -- A code that nothing covers is not looked at and must not seem right.
        verdict := 'wrong_code';
    ELSIF is_other AND (
        use_token.browser_code IS NULL OR (wanted.code_digits > 0 AND use_token.code IS NULL)
    ) THEN
        -- A scanner that opens the link and presses the button takes no try away.
        verdict := 'wrong_code';
    ELSIF wanted.code_digits > 0 OR is_other THEN
        verdict := mailroom.count_code_attempt(
            candidate, wanted.code_digits > 0, is_other, use_token.secret, use_token.code,
            use_token.browser_code, epoch
        );
    ELSE
        verdict := 'ok';
    END IF;

    IF verdict::text <> 'ok' THEN
        RETURN;
    END IF;

    UPDATE mailroom.issued_tokens AS tokens SET consumed_at = epoch WHERE id = candidate.id;
    PERFORM mailroom.withdraw(ARRAY[candidate.id], 'it was used');
    PERFORM mailroom.end_others(candidate, wanted, locked, epoch);
    PERFORM mailroom.notify_of_use(candidate, wanted, present_email);
    token := candidate.id;
    subject_id := candidate.subject_id;
END;
$$;

COMMENT ON FUNCTION mailroom.use_token(bytea, text, text, boolean, text) IS
    'The work of redeem(), which watches over it.';

-- Without a search path of its own, which would hide whether a function of eligibility has changed
-- that of the session for good: a plain SET in it outlasts every SET clause around it. So all names
-- have their schema here, those of types and operators too.
CREATE FUNCTION mailroom.redeem(
    secret bytea,
    action text,
    code text DEFAULT NULL,
    binding_proven boolean DEFAULT false,
    browser_code text DEFAULT NULL,
    OUT verdict mailroom.verdict,
    OUT token bigint,
    OUT subject_id text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    path pg_catalog.text := pg_catalog.current_setting('search_path');
BEGIN
    SELECT used.verdict, used.token, used.subject_id
    INTO redeem.verdict, redeem.token, redeem.subject_id
    FROM mailroom.use_token(
        redeem.secret, redeem.action, redeem.code, redeem.binding_proven, redeem.browser_code
    ) AS used;

    IF pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.<>) path THEN
        RAISE EXCEPTION
            'mailroom.redeem(): the eligibility function of the action % changes the search_path '
            'of the session', redeem.action
            USING ERRCODE = 'object_not_in_prerequisite_state',
                HINT = 'Give it a SET clause, as by ALTER FUNCTION ... SET search_path = '
                    'pg_catalog, pg_temp.';
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.redeem(bytea, text, text, boolean, text) IS
    'Uses a token up, if it is genuine, unused, unexpired, its subject is eligible and, where '
    'there is one, the code is right; answers why not otherwise, and the token and its subject on '
    'ok. Commit whatever it answers: a rollback takes the counted try back. Unless binding_proven '
    'a bound token needs the digits of browser_code(), beside its code if it has one.';

-- A link that was mailed asks for its successor, without anybody who types or sees an address.

-- Whoever has the link of an abandoned mailbox must not reach an account by it whose address has
-- changed since. So the mail goes to the address of the old one alone, and only while the subject
-- has that address: an action without a function of eligibility, which tells the present one, has
-- no renewals. Nor has a mail with a payload, which is deleted once it was sent.
--
-- It answers nothing, whatever it was given, and never waits: of calls at the same time one makes
-- the successor, and the others find the row locked.
CREATE FUNCTION mailroom.renew_link(secret bytea, action text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    wanted mailroom.actions%ROWTYPE;
    old mailroom.issued_tokens%ROWTYPE;
    present record;
    address text;
    epoch bigint;
    resting bigint;
    newest bigint;
    made bigint;
    is_adopted boolean := false;
    is_free boolean := true;
    outer_binding text := current_setting('mailroom.binding', true);
BEGIN
    -- In the others a later token or a change of the address may not be seen.
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'mailroom.renew_link() does not work in % transactions',
            current_setting('transaction_isolation')
            USING ERRCODE = 'invalid_transaction_state',
                HINT = 'Call it in a transaction with the isolation level READ COMMITTED.';
    END IF;

    SELECT * INTO wanted FROM mailroom.actions
    WHERE name = renew_link.action AND path IS NOT NULL AND NOT is_retired;

    -- Which addresses are still their subjects' nobody can say then. A page that answers "if it can
    -- be sent, it is on its way" would never send any, and its operator not hear of it. It is so
    -- for every secret, so that this tells nothing of one.
    IF FOUND AND wanted.eligibility IS NULL THEN
        RAISE EXCEPTION 'mailroom.renew_link() needs a predicate of the action %', wanted.name
            USING ERRCODE = 'object_not_in_prerequisite_state',
                HINT = 'It says which address a subject has now. Set mailroom.actions.eligibility.';
    END IF;

    -- An account's token refers to its row, which somebody else may have locked to delete it:
    -- first, as request() does it, and without waiting.
    IF wanted.number <= 2 AND to_regclass('mailroom.adopted_accounts') IS NOT NULL THEN
        PERFORM FROM mailroom.adopted_accounts AS accounts
        WHERE id = (
            SELECT CASE WHEN tokens.subject_id ~ '^(0|[1-9][0-9]{0,17})$'
                THEN tokens.subject_id::bigint END
            FROM mailroom.issued_tokens AS tokens
            WHERE consumed_id = CASE WHEN octet_length(renew_link.secret) = 32
                THEN mailroom.consumed_id(renew_link.secret) END
        )
        FOR KEY SHARE SKIP LOCKED;
        is_free := FOUND;
    END IF;

    SELECT * INTO old FROM mailroom.issued_tokens AS tokens
    WHERE consumed_id = CASE WHEN octet_length(renew_link.secret) = 32
        THEN mailroom.consumed_id(renew_link.secret) END
        AND tokens.action = wanted.number
    FOR NO KEY UPDATE SKIP LOCKED;

    -- As it is now. What fails for this subject tells nobody, either.
    IF wanted.eligibility IS NOT NULL THEN
        SELECT answer.email, answer.name INTO present
        FROM mailroom.ask_eligibility(wanted.eligibility, ARRAY[coalesce(old.subject_id, '')])
            AS answer
        WHERE answer.fault IS NULL AND answer.subject_id = old.subject_id COLLATE "C";
    ELSE
        SELECT NULL::text AS email, NULL::text AS name INTO present;
    END IF;

    -- Until then the tokens that this counts are not pruned.
    PERFORM setval('mailroom.longest_limit', 3600)
    FROM mailroom.longest_limit AS longest
    WHERE longest.last_value < 3600;

    epoch := floor(extract(epoch FROM mailroom.clock()));
    address := mailroom.normal_address(old.recipient_email);

    SELECT rests_until INTO resting FROM mailroom.code_failures
    WHERE subject = old.subject_id AND NOT is_other_browser;

    SELECT max(id), count(*) FILTER (WHERE created_at > epoch - 3600) INTO newest, made
    FROM mailroom.issued_tokens AS tokens
    WHERE subject_id = old.subject_id AND tokens.action = wanted.number;

    IF is_free
        AND old.cancelled_at IS NULL
        AND NOT old.has_payload
        AND old.id = newest
        -- As clocks may have been set back, a time ahead of this one counts as now.
        AND least(old.created_at, epoch) <= epoch - extract(epoch FROM wanted.cooldown)
        AND made < 5
        AND (resting > epoch) IS NOT TRUE
        AND (present.email = old.recipient_email COLLATE "C"
            OR mailroom.normal_address(present.email) = address)
        AND mailroom.is_address(old.recipient_email)
        AND NOT EXISTS (
            SELECT FROM mailroom.suppressions AS suppression WHERE suppression.address = address
        )
    THEN
        -- Of an account of Mailroom's own another row makes the token.
        IF wanted.number <= 2 AND to_regclass('mailroom.adopted_tokens') IS NOT NULL THEN
            PERFORM set_config('mailroom.binding', coalesce(encode(old.binding, 'hex'), ''), true);
            INSERT INTO mailroom.adopted_tokens (account, action, created_at)
            SELECT tokens.account, tokens.action, epoch
            FROM mailroom.adopted_tokens AS tokens
            WHERE id = old.id;
            is_adopted := FOUND;
            PERFORM set_config('mailroom.binding', coalesce(outer_binding, ''), true);
        END IF;

        IF NOT is_adopted THEN
            PERFORM mailroom.enqueue(
                wanted.name, old.recipient_email, old.recipient_name, old.subject_id,
                language => old.language, binding => old.binding,
                notice_recipient => old.notice_recipient
            );
        END IF;
    END IF;

    -- As request() does: a commit that has something to write takes longer than one that has not.
    PERFORM pg_catalog.pg_logical_emit_message(true, 'mailroom', '');
END;
$$;

COMMENT ON FUNCTION mailroom.renew_link(bytea, text) IS
    'Mails a new link in place of the one with this secret, used, expired or locked as that may '
    'be: for the same subject, address, language and browser. Only if that is its subject''s '
    'newest of the action, was not cancelled and had no payload, the subject is eligible with the '
    'same address, which is not suppressed, the action''s cooldown is over, there were fewer than '
    'five within an hour, and no wrong codes have the subject rest. Answers nothing, whether it '
    'did or not.';

-- What became of mails that a broker was given: its senders say it, and collectors bring it here.
-- It comes at least once, in any order, and perhaps before the collector has settled.

-- The time limit is below that of the search for deadlocks, which could end an application.
CREATE FUNCTION mailroom.try_suppress(address text, detail text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '20ms' AS $$
BEGIN
    PERFORM mailroom.suppress(try_suppress.address, 'bounce', 'smtp', try_suppress.detail);
    RETURN true;
EXCEPTION
    WHEN lock_not_available OR deadlock_detected THEN
        RETURN false;
END;
$$;

COMMENT ON FUNCTION mailroom.try_suppress(text, text) IS
    'Suppresses an address of which a mail server says that it does not exist, unless an open '
    'transaction does the same.';

-- Answers what was done: `applied`; `dead`, when that made a dead letter; `repeated`, when it was
-- known or a later one is; `unknown`, when there is no such token any more; or `early`, when the
-- token is in the queue or in a batch, or somebody has its row, so that the verdict has to come
-- again. `kind` is sent, dead, unknown_address (dead, and the address is suppressed if the
-- collector has the right to do so), expired (dead, if its time is not over) or in_doubt. `attempt`
-- is that of the message, which is an earlier one than the token's where the answer that it was
-- stored got lost.
--
-- Locks rows of handed_over, issued_tokens, dead_letters and payloads, and waits for none of them:
-- an application that redeems, forgets or puts back may have one, and wait for the next one that
-- this has. Where somebody has one the verdict is early.
CREATE FUNCTION mailroom.settle_verdict(
    told bigint,
    key text,
    kind text,
    attempt integer,
    doubts integer,
    reason text,
    provider text,
    message_id text,
    answer text
) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom.clock();
    known mailroom.issued_tokens;
    away mailroom.handed_over;
    is_closed boolean;
    suppresses boolean := false;
    outcome mailroom.outcome;
BEGIN
    SELECT handed_over.* INTO away FROM mailroom.handed_over
    WHERE token = told
    FOR UPDATE SKIP LOCKED;

    -- By its key too: another database's tokens have the same ids.
    SELECT tokens.* INTO known
    FROM mailroom.issued_tokens AS tokens
    WHERE id = told AND encode(consumed_id, 'hex') = settle_verdict.key;

    IF NOT FOUND THEN
        RETURN 'unknown';
    END IF;

    -- A token that was given up and put back is tried anew. What was said of it before counts no
    -- more, unless it was sent.
    IF kind <> 'sent' AND EXISTS (
        SELECT FROM mailroom.delivery_log AS log
        WHERE tokens[1] = told AND log.outcome = 'dead'
            AND log.attempt >= settle_verdict.attempt
    ) THEN
        RETURN 'repeated';
    END IF;

    IF away.token IS NULL THEN
        -- One statement, one snapshot: a token that moves between the tables is in one of them, and
        -- one whose row somebody has is still in handed_over.
        IF EXISTS (SELECT FROM mailroom.queue WHERE token = told)
            OR EXISTS (SELECT FROM mailroom.leases WHERE told = ANY (tokens))
            OR EXISTS (SELECT FROM mailroom.handed_over WHERE token = told) THEN
            RETURN 'early';
        END IF;

        -- Before the token's row is locked, for which those who redeem it wait.
        IF kind <> 'sent' OR EXISTS (
            SELECT FROM mailroom.delivery_log AS log
            WHERE tokens[1] / 256 = told / 256 AND told = ANY (tokens) AND log.outcome = 'sent'
        ) THEN
            RETURN 'repeated';
        END IF;

        -- So that two collectors do not both record that it was sent.
        PERFORM FROM mailroom.issued_tokens AS tokens
        WHERE id = told
        FOR NO KEY UPDATE SKIP LOCKED;

        IF NOT FOUND THEN
            -- It comes again also if it is just being deleted, and is unknown then.
            RETURN 'early';
        END IF;

        -- It was sent after all.
        DELETE FROM mailroom.dead_letters
        WHERE token = ANY (ARRAY(
            SELECT token FROM mailroom.dead_letters WHERE token = told FOR UPDATE SKIP LOCKED
        ));

        -- Somebody puts it back just now, or has done so.
        IF EXISTS (SELECT FROM mailroom.dead_letters WHERE token = told)
            OR EXISTS (SELECT FROM mailroom.queue WHERE token = told)
            OR EXISTS (SELECT FROM mailroom.leases WHERE told = ANY (tokens))
            OR EXISTS (SELECT FROM mailroom.handed_over WHERE token = told) THEN
            RETURN 'early';
        END IF;

        IF EXISTS (
            SELECT FROM mailroom.delivery_log AS log
            WHERE tokens[1] / 256 = told / 256 AND told = ANY (tokens) AND log.outcome = 'sent'
        ) THEN
            RETURN 'repeated';
        END IF;
    END IF;

    IF kind = 'sent' THEN
        outcome := 'sent';

        IF provider IS NOT NULL THEN
            INSERT INTO mailroom.receipts (
                token, attempt, accepted_at, action, provider, message_id, answer, address_hash
            )
            VALUES (
                told, coalesce(away.attempts, settle_verdict.attempt), epoch, known.action,
                settle_verdict.provider, left(settle_verdict.message_id, 200),
                left(coalesce(settle_verdict.answer, ''), 200),
                mailroom.address_hash(
                    known.recipient_email, (SELECT address_key FROM mailroom.installation)
                )
            );
        END IF;
    ELSIF kind = 'in_doubt' THEN
        IF settle_verdict.doubts <= away.doubts THEN
            RETURN 'repeated';
        END IF;

        UPDATE mailroom.handed_over SET doubts = least(settle_verdict.doubts, 32767)::smallint
        WHERE token = told;
        outcome := 'in_doubt';
    ELSE
        is_closed := known.consumed_at IS NOT NULL OR known.cancelled_at IS NOT NULL;

        -- Who has used the link has the mail, and nobody waits for what was cancelled.
        IF is_closed AND (kind = 'expired' OR settle_verdict.doubts > 0) THEN
            outcome := 'cancelled';
        -- A machine whose clock is ahead drops every mail that it gets. What it dropped can be put
        -- back. Clocks may differ by a minute.
        ELSIF kind = 'expired' AND away.expires_at <= extract(epoch FROM epoch) + 60 THEN
            outcome := 'expired';
        ELSE
            outcome := 'dead';
            -- The collector's own right: it calls this with the rights of the owner.
            suppresses := kind = 'unknown_address'
                AND mailroom.is_address(known.recipient_email)
                AND has_function_privilege(
                    session_user, to_regprocedure('mailroom.suppress(text, text, text, text)'),
                    'EXECUTE'
                ) IS TRUE;

            -- First, since it may have to come again.
            IF suppresses AND NOT mailroom.try_suppress(
                known.recipient_email, settle_verdict.reason
            ) THEN
                RETURN 'early';
            END IF;

            INSERT INTO mailroom.dead_letters (
                token, died_at, expires_at, attempts, failures, priority, secret, code, reason,
                doubts, is_suppressed
            )
            SELECT
                told, epoch, away.expires_at, away.attempts,
                least(away.failures::integer + 1, 32767)::smallint, away.priority,
                CASE WHEN is_usable THEN away.secret END, CASE WHEN is_usable THEN away.code END,
                coalesce(settle_verdict.reason, ''),
                least(greatest(settle_verdict.doubts, away.doubts::integer), 32767)::smallint,
                coalesce(suppresses, false)
            FROM (
                SELECT NOT is_closed AND known.expires_at > extract(epoch FROM epoch) AS is_usable
            ) AS use
            ON CONFLICT DO NOTHING;
        END IF;
    END IF;

    IF outcome <> 'in_doubt' THEN
        DELETE FROM mailroom.handed_over WHERE token = told;
    END IF;

    -- A dead letter that is put back needs its payload.
    IF outcome NOT IN ('in_doubt', 'dead') THEN
        PERFORM mailroom.delete_payloads(ARRAY[told]);
    END IF;

    INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome, reason)
    VALUES (
        ARRAY[told], epoch, coalesce(away.attempts, settle_verdict.attempt), outcome,
        CASE
            WHEN outcome IN ('dead', 'in_doubt') THEN settle_verdict.reason
            WHEN outcome = 'expired' THEN mailroom.expired_unsent()
            WHEN outcome = 'cancelled' THEN 'it was used or cancelled before'
        END
    );

    -- Not by the verdict's word: one that was used meanwhile is cancelled, and a clock that is
    -- ahead expires nothing.
    RETURN CASE outcome WHEN 'dead' THEN 'dead' ELSE 'applied' END;
END;
$$;

COMMENT ON FUNCTION mailroom.settle_verdict(bigint, text, text, integer, integer, text, text, text,
    text) IS
    'Records what became of a mail that was handed over, and answers whether that was applied, made'
    ' a dead letter, or was repeated, unknown or early.';

CREATE FUNCTION mailroom.settle_verdicts(
    verdict_tokens bigint[],
    verdict_keys text[],
    verdict_kinds text[],
    verdict_attempts integer[],
    verdict_doubts integer[],
    verdict_reasons text[],
    receipt_providers text[],
    receipt_message_ids text[],
    receipt_answers text[]
) RETURNS TABLE (place bigint, result text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
BEGIN
    -- As in settle(): also a repetition waits for what the first one waits for, such as a standby.
    PERFORM pg_logical_emit_message(true, 'mailroom', '');

    -- Of one token in the order in which they came.
    FOR place, result IN
        SELECT told.nth, mailroom.settle_verdict(told.token, told.key, told.kind, told.attempt,
            told.doubts, told.reason, told.provider, told.message_id, told.answer)
        FROM (
            SELECT verdict.*
            FROM ROWS FROM (
                pg_catalog.unnest(verdict_tokens), pg_catalog.unnest(verdict_keys),
                pg_catalog.unnest(verdict_kinds), pg_catalog.unnest(verdict_attempts),
                pg_catalog.unnest(verdict_doubts), pg_catalog.unnest(verdict_reasons),
                pg_catalog.unnest(receipt_providers), pg_catalog.unnest(receipt_message_ids),
                pg_catalog.unnest(receipt_answers)
            ) WITH ORDINALITY AS verdict (
                token, key, kind, attempt, doubts, reason, provider, message_id, answer, nth
            )
            ORDER BY verdict.token, verdict.nth
            OFFSET 0
        ) AS told
    LOOP
        RETURN NEXT;
    END LOOP;
END;
$$;

COMMENT ON FUNCTION mailroom.settle_verdicts(bigint[], text[], text[], integer[], integer[],
    text[], text[], text[], text[]) IS
    'For collectors: records what became of mails that were handed over to a broker; answers of '
    'each, by its place in the arrays, whether that was applied, dead (it is a dead letter now), '
    'repeated (known before), unknown (no such token) or early (it has to come again).';

-- What the broker knows of these is asked for again: a verdict that was done with there can be
-- missing here, where a standby took over that had not received it.
--
-- Locks nothing.
CREATE FUNCTION mailroom.list_handed_over(after_token bigint, most integer)
RETURNS TABLE (token bigint, key text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT away.token, encode(tokens.consumed_id, 'hex')
    FROM (
        SELECT token FROM mailroom.handed_over
        WHERE token > after_token AND handed_over_at < mailroom.clock() - interval '1 minute'
        ORDER BY token
        LIMIT most
    ) AS away
    JOIN mailroom.issued_tokens AS tokens ON tokens.id = away.token
    ORDER BY 1;
END;
$$;

COMMENT ON FUNCTION mailroom.list_handed_over(bigint, integer) IS
    'For collectors: the next tokens after one that were handed over a minute ago and have no '
    'verdict, with the keys by which a broker knows them.';

-- Neither the name alone, which need not be given, nor the key, which a copy has too.
CREATE FUNCTION mailroom.name_reader(installation text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off
BEGIN ATOMIC
    SELECT encode(substr(sha256(
        own.address_key || mailroom.to_utf8(concat_ws(
            '/', mailroom.cluster_identifier(), current_database(), name_reader.installation
        ))
    ), 1, 8), 'hex')
    FROM mailroom.installation AS own;
END;

COMMENT ON FUNCTION mailroom.name_reader(text) IS
    'For collectors: 16 digits by which a broker tells the readers of this database from those of '
    'others, and of its copies, whose collectors name another installation.';

-- Which of the tokens that a claim has locked are sent, and why the others are not.

CREATE FUNCTION mailroom.expired_unsent() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 'it expired before it could be sent';

COMMENT ON FUNCTION mailroom.expired_unsent() IS
    'Why a token is logged as expired, by whoever finds that.';

CREATE TYPE mailroom.candidate AS (
    place tid, token bigint, due_at timestamptz, attempt integer, failures smallint,
        priority smallint, secret bytea, code text,
    id bigint, action smallint, subject_id text, recipient_email text, recipient_name text,
        language text, expires_at bigint, binding bytea,
    has_payload boolean, is_void boolean, eligibility text, proves_address boolean,
        waits_since timestamptz, doubts smallint, traceparent text
);

COMMENT ON TYPE mailroom.candidate IS
    'A row of the queue and where it lies, with its token, whose id is null if it is gone, and '
    'what its action needs.';

CREATE TYPE mailroom.checked_candidate AS (
    place tid, token bigint, due_at timestamptz, attempt integer, failures smallint,
        priority smallint, secret bytea, code text,
    action smallint, email text, name text, language text, expires_at bigint, binding bytea,
        payload text, verdict text, fault text,
    waits_since timestamptz, doubts smallint, traceparent text
);

COMMENT ON TYPE mailroom.checked_candidate IS
    'Whether a candidate goes out: eligible, cancelled, expired, unsignable, ineligible or '
    'suppressed, and else why; with all that goes out.';

-- This function and those below have no search path of their own and are not volatile, so that they
-- become parts of the statement that calls them. OFFSET 0 keeps look-ups by key for each row.
CREATE FUNCTION mailroom.candidates(places tid[]) RETURNS SETOF mailroom.candidate
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT
        asked.place,
        queued.token, queued.due_at, queued.attempts + 1, queued.failures, queued.priority,
            queued.secret, queued.code,
        known.id, known.action, known.subject_id, known.recipient_email, known.recipient_name,
            known.language, known.expires_at,
        known.binding, known.has_payload, known.is_void,
        actions.eligibility, actions.proves_address,
        coalesce(queued.waits_since, queued.due_at), queued.doubts, known.traceparent
    FROM pg_catalog.unnest(places) AS asked (place)
    CROSS JOIN LATERAL (
        SELECT token, due_at, attempts, failures, priority, secret, code, waits_since, doubts
            FROM mailroom.queue WHERE ctid = asked.place
        OFFSET 0
    ) AS queued
    LEFT JOIN LATERAL (
        SELECT
            id, action, subject_id, recipient_email, recipient_name, language, expires_at, binding,
                has_payload, traceparent,
            consumed_at IS NOT NULL OR cancelled_at IS NOT NULL AS is_void
        FROM mailroom.issued_tokens
        WHERE id = queued.token
        OFFSET 0
    ) AS known ON true
    LEFT JOIN mailroom.actions ON actions.number = known.action;
END;

COMMENT ON FUNCTION mailroom.candidates(tid[]) IS
    'The rows of the queue at these places, with their tokens.';

CREATE FUNCTION mailroom.check_candidate(
    candidate mailroom.candidate, present_email text, present_name text, fault text,
        expiry_bound bigint, signable smallint[], binds boolean
) RETURNS SETOF mailroom.checked_candidate
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT
        (candidate).place, (candidate).token, (candidate).due_at, (candidate).attempt,
            (candidate).failures, (candidate).priority,
        (candidate).secret, (candidate).code, (candidate).action, recipient.email, recipient.name,
            (candidate).language,
        (candidate).expires_at, (candidate).binding,
        CASE WHEN (candidate).has_payload THEN (SELECT payload::text FROM mailroom.payloads
            WHERE token = (candidate).id) END,
        CASE
            WHEN (candidate).id IS NULL OR (candidate).is_void THEN 'cancelled'
            WHEN (candidate).expires_at <= expiry_bound THEN 'expired'
            WHEN (candidate).action <> ALL (signable) OR NOT binds
                AND (candidate).binding IS NOT NULL THEN 'unsignable'
            WHEN (candidate).eligibility IS NOT NULL AND present_email IS NULL THEN 'ineligible'
            WHEN recipient.is_other OR NOT recipient.is_address THEN 'cancelled'
            WHEN suppression.reason IS NOT NULL THEN 'suppressed'
            ELSE 'eligible'
        END,
        CASE
            WHEN (candidate).id IS NULL THEN 'it was deleted'
            WHEN (candidate).is_void THEN 'it was used or cancelled'
            WHEN (candidate).expires_at <= expiry_bound THEN mailroom.expired_unsent()
            WHEN (candidate).action <> ALL (signable) THEN
                'their action is '
                || (SELECT name FROM mailroom.actions WHERE number = (candidate).action)
            WHEN NOT binds AND (candidate).binding IS NOT NULL THEN 'they are bound to a browser'
            WHEN (candidate).eligibility IS NOT NULL AND present_email IS NULL THEN fault
            WHEN recipient.is_other THEN 'its address is not the one that its subject has now'
            WHEN NOT recipient.is_address THEN
                'the address of its account is not one that mail can be sent to'
            ELSE 'its address is suppressed (' || suppression.reason || ')'
        END,
        (candidate).waits_since,
        (candidate).doubts,
        (candidate).traceparent
    FROM (
        SELECT
            coalesce((candidate).recipient_email, present_email) AS email,
            coalesce((candidate).recipient_name, present_name) AS name,
            -- It was enqueued for another address, or the subject's changed in a transaction that
            -- did not see this token and so did not cancel it.
            -- Another spelling of one address is none.
            (
                (candidate).eligibility IS NOT NULL
                AND (candidate).proves_address
                AND (candidate).recipient_email <> present_email COLLATE "C"
                AND mailroom.normal_address((candidate).recipient_email) IS DISTINCT
                    FROM mailroom.normal_address(present_email)
            ) IS TRUE AS is_other,
            -- What was enqueued is one.
            (candidate).recipient_email IS NOT NULL OR present_email IS NULL
                OR mailroom.is_addressable(present_email) AS is_address
    ) AS recipient
    LEFT JOIN LATERAL (
        -- The second condition is evaluated once:
        -- where no address is suppressed, none is looked up.
        SELECT reason FROM mailroom.suppressions
        WHERE address = mailroom.normal_address(recipient.email)
            AND (SELECT EXISTS (SELECT FROM mailroom.suppressions))
        OFFSET 0
    ) AS suppression ON true;
END;

COMMENT ON FUNCTION mailroom.check_candidate(mailroom.candidate, text, text, text, bigint,
    smallint[], boolean) IS
    'Checks a candidate by the address and name that its subject has now, null if it is not '
    'eligible, for the reason of fault if there is one.';

-- Predicates of eligibility are asked once an action, and only for what could go out.
CREATE FUNCTION mailroom.check_eligibility(
    places tid[], expiry_bound bigint, signable smallint[], binds boolean
) RETURNS SETOF mailroom.checked_candidate
LANGUAGE sql STABLE
BEGIN ATOMIC
    WITH
    locked AS MATERIALIZED (
        SELECT * FROM mailroom.candidates(places)
    ),
    answers AS MATERIALIZED (
        SELECT asked.action, answer.*
        FROM (
            SELECT action, eligibility, pg_catalog.array_agg(subject_id) AS subject_ids
            FROM locked
            WHERE eligibility IS NOT NULL AND NOT is_void AND expires_at > expiry_bound
                AND action = ANY (signable)
                AND (binds OR binding IS NULL)
            GROUP BY action, eligibility
        ) AS asked
        CROSS JOIN LATERAL mailroom.ask_eligibility(asked.eligibility, asked.subject_ids) AS answer
    )
    SELECT checked.*
    FROM locked
    LEFT JOIN answers AS answer ON answer.action = locked.action
        AND answer.subject_id = locked.subject_id
    CROSS JOIN LATERAL mailroom.check_candidate(
        locked::mailroom.candidate, answer.email, answer.name, answer.fault, expiry_bound, signable,
            binds
    ) AS checked;
END;

COMMENT ON FUNCTION mailroom.check_eligibility(tid[], bigint, smallint[], boolean) IS
    'Checks the rows of the queue at these places, in their order.';

CREATE FUNCTION mailroom.check_without_calls(places tid[], expiry_bound bigint, signable smallint[],
    binds boolean) RETURNS SETOF mailroom.checked_candidate
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT checked.*
    FROM mailroom.candidates(places) AS locked
    CROSS JOIN LATERAL mailroom.check_candidate(locked, NULL, NULL, 'must be asked', expiry_bound,
        signable, binds) AS checked;
END;

COMMENT ON FUNCTION mailroom.check_without_calls(tid[], bigint, smallint[], boolean) IS
    'As check_eligibility(), but calls no function of eligibility: a candidate for which one must '
    'be asked is ineligible, its fault ''must be asked''.';

-- Most tokens need no call of a function of eligibility. If one does, or accounts cannot be read or
-- are locked, check_eligibility() checks all, where an error is that of one action's tokens alone,
-- which are deferred.
CREATE FUNCTION mailroom.check_candidates(
    places tid[], expiry_bound bigint, signable smallint[], binds boolean,
        OUT checked mailroom.checked_candidate[], OUT eligible integer
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = 300 AS $$
BEGIN
    BEGIN
        SELECT array_agg(candidate), count(*) FILTER (WHERE candidate.verdict = 'eligible')
        INTO checked, eligible
        FROM mailroom.check_without_calls(places, expiry_bound, signable, binds) AS candidate;
    EXCEPTION WHEN OTHERS OR assert_failure OR query_canceled THEN
        checked := NULL;
    END;

    IF checked IS NULL
        OR eligible < cardinality(checked)
        AND EXISTS (SELECT FROM pg_catalog.unnest(checked) WHERE verdict = 'ineligible'
            AND fault = 'must be asked')
    THEN
        SELECT array_agg(candidate), count(*) FILTER (WHERE candidate.verdict = 'eligible')
        INTO checked, eligible
        FROM mailroom.check_eligibility(places, expiry_bound, signable, binds) AS candidate;
    END IF;

    checked := coalesce(checked, '{}');
END;
$$;

COMMENT ON FUNCTION mailroom.check_candidates(tid[], bigint, smallint[], boolean) IS
    'Checks the rows of the queue at these places, in their order, and counts those that go out.';

-- How many tokens a day all collectors together may claim.

-- A rate is shared by what these sequences say, which are never counted up. Sequences have no
-- versions: what is set is seen at once and not taken back with the transaction, and nothing grows
-- under an old snapshot.
CREATE SEQUENCE mailroom.rate_spent_until MINVALUE 0 START 0;

COMMENT ON SEQUENCE mailroom.rate_spent_until IS
    'Not counted up: the time from which the next token may be claimed at a rate, in microseconds '
    'since the Unix epoch.';

CREATE SEQUENCE mailroom.rate_in_use MINVALUE 0 START 0;

COMMENT ON SEQUENCE mailroom.rate_in_use IS
    'Not counted up: the rate by which that was reckoned, in tokens a day.';

-- A budget is what all collectors together may claim in a calendar month (UTC). One sequence has
-- the month and what was claimed in it, so that both are set at once and outlast a crash.
CREATE SEQUENCE mailroom.budget_spent MINVALUE 0 START 0;

COMMENT ON SEQUENCE mailroom.budget_spent IS
    'Not counted up: a month, as 12 times its year and its number from 0 to 11, times a million '
    'million; and how many tokens were claimed in it by collectors with a budget.';

CREATE SEQUENCE mailroom.budget_in_use MINVALUE 0 START 0;

COMMENT ON SEQUENCE mailroom.budget_in_use IS
    'Not counted up: the budget of the last claim, in tokens a month; 0 if it had none.';

CREATE FUNCTION mailroom.read_budget(moment timestamptz, OUT month bigint, OUT used bigint,
    OUT begins_at timestamptz, OUT ends_at timestamptz)
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT
        known.month,
        CASE WHEN known.spent_in >= known.current THEN known.spent ELSE 0::bigint END,
        first_day.at,
        (date_trunc('month', (first_day.at AT TIME ZONE 'UTC') + interval '32 days'))
            AT TIME ZONE 'UTC'
    FROM (
        SELECT
            stored.current, stored.spent_in, stored.spent,
            -- A clock that is set back over the end of a month goes on with the new one; one that
            -- was wrong by months does not count for months, but what it counted stays.
            CASE WHEN stored.spent_in = stored.current + 1 THEN stored.spent_in
                ELSE stored.current END AS month
        FROM (
            SELECT
                (12 * extract(year FROM read_budget.moment AT TIME ZONE 'UTC')
                    + extract(month FROM read_budget.moment AT TIME ZONE 'UTC') - 1)::bigint
                    AS current,
                last_value / 1000000000000 AS spent_in,
                last_value % 1000000000000 AS spent
            FROM mailroom.budget_spent
        ) AS stored
    ) AS known
    CROSS JOIN LATERAL (
        SELECT make_timestamptz((known.month / 12)::integer, (known.month % 12)::integer + 1, 1,
            0, 0, 0, 'UTC') AS at
    ) AS first_day;
END;

COMMENT ON FUNCTION mailroom.read_budget(timestamptz) IS
    'The month that a budget counts for, what was claimed in it, and when it begins and ends.';

-- At a rate, tokens are spaced evenly; those whose time has come are granted together, up to a
-- second late. So no stretch of time has more than the rate allows for it and a second, and one
-- more. Of what is left of a budget as many are granted as the rate allows, so that no place of
-- either is lost to the other. A claim that fails after this, or a collector that dies with it,
-- loses its places: more is never claimed than both allow.
--
-- Locks: a table that only its owner may lock, so that no other role can stop the claims. An
-- exception releases it with its block, so that nobody waits for the claims and commits of others.
-- Whoever wants nothing and changes nothing takes no lock: it only learns whether to come again.
-- The log records of the sequences lie before that of the claim's commit, so that what was claimed
-- is spent also after a crash.
CREATE FUNCTION mailroom.spend(
    per_day bigint, budget bigint, capacity integer, wanted bigint,
    OUT granted bigint, OUT wait bigint, OUT other_rate bigint, OUT other_budget bigint,
    OUT budget_left bigint
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    second constant bigint := 1000000;
    day constant bigint := 86400 * second;
    used_rate bigint := (SELECT last_value FROM mailroom.rate_in_use);
    used_budget bigint := (SELECT last_value FROM mailroom.budget_in_use);
    asked_at timestamptz := mailroom.clock();
    moment bigint;
    one bigint := (day + per_day - 1) / per_day;
    spent_until bigint;
    next_at bigint;
    by_rate bigint;
    month record;
BEGIN
    BEGIN
        moment := floor(extract(epoch FROM asked_at) * second)::bigint;
        SELECT last_value INTO spent_until FROM mailroom.rate_spent_until;
        IF wanted <> 0 OR used_rate <> per_day OR used_budget <> budget
            OR spent_until > moment + one
        THEN
            LOCK TABLE mailroom.rate_lock IN EXCLUSIVE MODE;
            asked_at := mailroom.clock();
            moment := floor(extract(epoch FROM asked_at) * second)::bigint;
            SELECT last_value INTO spent_until FROM mailroom.rate_spent_until;
            SELECT last_value INTO used_rate FROM mailroom.rate_in_use;
            SELECT last_value INTO used_budget FROM mailroom.budget_in_use;
        END IF;
        month := mailroom.read_budget(asked_at);
        granted := CASE WHEN wanted < 0 THEN greatest(wanted, -month.used) ELSE wanted END;

        IF per_day IS NOT NULL THEN
            -- At most one token ahead: it is further only if the clock was set back, or by a lower
            -- rate. So the highest counts.
            next_at := least(greatest(spent_until, moment - second), moment + one);
            by_rate := CASE WHEN next_at > moment THEN 0
                ELSE least(wanted, (moment - next_at) * per_day / day + 1) END;
            granted := least(granted, by_rate);
        END IF;

        IF budget IS NOT NULL THEN
            granted := least(granted, greatest(budget - month.used, 0));
            budget_left := greatest(budget - month.used - granted, 0);
            IF used_budget <> budget THEN
                other_budget := used_budget;
                PERFORM setval('mailroom.budget_in_use', budget);
            END IF;
        END IF;

        IF per_day IS NOT NULL THEN
            next_at := next_at + (granted * day + per_day - 1) / per_day;
            IF granted > 0 OR next_at < spent_until THEN
                PERFORM setval('mailroom.rate_spent_until', next_at);
            END IF;
            IF used_rate <> per_day THEN
                other_rate := nullif(used_rate, 0);
                PERFORM setval('mailroom.rate_in_use', per_day);
            END IF;
        END IF;

        IF granted < 0 OR budget IS NOT NULL AND granted > 0 THEN
            PERFORM setval('mailroom.budget_spent',
                month.month * 1000000000000 + month.used + granted);
        END IF;

        RAISE EXCEPTION USING ERRCODE = 'MRATE';
    EXCEPTION WHEN SQLSTATE 'MRATE' THEN
        NULL;
    END;

    -- Until what is claimed at once has its time, but no longer than a fifth of a second, or until
    -- the next one. Who waits for very long looks again now and then: the clock may be set.
    IF next_at > moment AND by_rate < greatest(wanted, 1) THEN
        wait := ceil(least(
            greatest(next_at - moment, least(second / 5,
                next_at - moment + (capacity - 1) * day / per_day)),
            60 * second
        ) / 1000.0);
    END IF;

    -- Who waits for the next month does the same: the budget may be raised, too.
    IF budget_left = 0 THEN
        wait := greatest(wait, ceil(least(60000::numeric,
            greatest(1000 * extract(epoch FROM month.ends_at - asked_at), 1)))::bigint);
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.spend(bigint, bigint, integer, bigint) IS
    'Takes tokens from a rate, which is tokens a day, and from a budget, which is tokens a month: '
    'how many of those wanted may be claimed now; if there are fewer, or none where none is wanted '
    'yet, in how many milliseconds to come again, with capacity for so many; the rate and the '
    'budget by which others claim, if they are others, and 0 for no budget; and what is left of '
    'the budget. A number below zero gives back to the month''s budget.';

CREATE FUNCTION mailroom.return_unspent(tokens bigint, claimed_within bigint) RETURNS void
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    -- What was claimed in another month is not given back to this one: its budget is over.
    IF tokens > 0 AND (
        SELECT begins_at <= mailroom.clock()
            - interval '1 millisecond' * claimed_within::double precision
        FROM mailroom.read_budget(mailroom.clock())
    ) THEN
        PERFORM mailroom.spend(NULL::bigint, NULL::bigint, 0, -tokens);
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.return_unspent(bigint, bigint) IS
    'For collectors with a budget: so many of the tokens that were claimed within so many '
    'milliseconds were certainly given to no provider.';

-- Collectors claim batches of what is due.

-- Every seventh place is kept for one of the second priority, if one waits: of a hundred rows at
-- least ten are, also where several collectors count for themselves.
--
-- Whoever yields leaves a deferred row to others once more for as long as it was put off: a
-- collector that cannot sign it would else put it off again whenever it looks first, each time for
-- twice as long, while another one waits that signs it.
--
-- Locks: rows of the queue; those that another collector is just claiming are passed over.
CREATE FUNCTION mailroom.lock_candidates(
    scan_limit integer, turn integer, first_since timestamptz, second_since timestamptz,
        until timestamptz,
    takes_doubtful boolean, yields boolean,
    OUT places tid[], OUT first_through timestamptz, OUT second_through timestamptz
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    reserved integer := (turn + scan_limit) / 7;
    second tid[];
BEGIN
    SELECT coalesce(array_agg(place), '{}'), max(due_at) INTO places, first_through
    FROM (
        SELECT ctid AS place, due_at FROM mailroom.queue
        WHERE priority = 0::smallint AND due_at >= first_since AND due_at <= until
            AND (takes_doubtful OR doubts = 0)
            AND (NOT yields OR deferrals = 0 OR due_at + (due_at - put_off_at) <= until)
        ORDER BY due_at
        LIMIT scan_limit - reserved
        FOR UPDATE SKIP LOCKED
    ) AS locked;

    IF cardinality(places) < scan_limit THEN
        SELECT coalesce(array_agg(place), '{}'), max(due_at) INTO second, second_through
        FROM (
            SELECT ctid AS place, due_at FROM mailroom.queue
            WHERE priority = 1::smallint AND due_at >= second_since AND due_at <= until
                AND (takes_doubtful OR doubts = 0)
                AND (NOT yields OR deferrals = 0 OR due_at + (due_at - put_off_at) <= until)
            ORDER BY due_at
            LIMIT scan_limit - cardinality(places)
            FOR UPDATE SKIP LOCKED
        ) AS locked;

        -- Fewer of the second priority wait than places were kept: the first one gets the rest.
        IF cardinality(places) + reserved = scan_limit AND cardinality(second) < reserved THEN
            SELECT places || coalesce(array_agg(place), '{}'), coalesce(max(due_at), first_through)
                INTO places, first_through
            FROM (
                SELECT ctid AS place, due_at FROM mailroom.queue
                WHERE priority = 0::smallint AND due_at >= coalesce(first_through, first_since)
                    AND due_at <= until AND ctid <> ALL (places)
                    AND (takes_doubtful OR doubts = 0)
                    AND (NOT yields OR deferrals = 0 OR due_at + (due_at - put_off_at) <= until)
                ORDER BY due_at
                LIMIT reserved - cardinality(second)
                FOR UPDATE SKIP LOCKED
            ) AS locked;
        END IF;

        IF cardinality(places) > 0 AND cardinality(second) > 0 THEN
            places := ARRAY(
                SELECT place
                FROM (
                    SELECT place, (turn + nth - 1) * 7 / 6 AS slot
                        FROM pg_catalog.unnest(places) WITH ORDINALITY AS first (place, nth)
                    UNION ALL
                    SELECT place, 7 * nth - 1 FROM pg_catalog.unnest(second) WITH ORDINALITY
                        AS second (place, nth)
                ) AS both_priorities
                ORDER BY slot
            );
        ELSE
            places := places || second;
        END IF;
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.lock_candidates(integer, integer, timestamptz, timestamptz,
    timestamptz, boolean, boolean) IS
    'Locks rows of the queue, the oldest of each priority first, and only on demand such as may '
    'have been delivered already; answers where they lie, in the order in which they go out, and '
    'the latest due time of each priority.';

-- Only v1 binds no links, and has no further actions.
CREATE FUNCTION mailroom.others_sign_more(epoch timestamptz) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT EXISTS (
        SELECT FROM mailroom.collectors
        WHERE token_format <> 'v1' AND state IS DISTINCT FROM 'ended'
            AND mailroom.is_seen(seen_at, epoch)
    );
END;

COMMENT ON FUNCTION mailroom.others_sign_more(timestamptz) IS
    'Whether a collector is alive that signs what one of v1 cannot.';

-- Deferred tokens are looked at again after a pause that doubles from a quarter of a second up to a
-- minute, or to a part of their life.
CREATE FUNCTION mailroom.skip(
    collector bigint, epoch timestamptz, expiry_bound bigint, deferred bigint[], cancelled bigint[],
        cancel_reasons text[],
    expired bigint[], suppressed bigint[], suppression_reasons text[]
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_nestloop = on SET enable_hashjoin = off AS $$
#variable_conflict use_column
DECLARE
    expired_in_doubt constant text := mailroom.doubtful('it expired after an attempt in doubt');
BEGIN
    UPDATE mailroom.queue
    SET put_off_at = epoch,
        waits_since = CASE WHEN doubts > 0 THEN coalesce(waits_since, due_at) END,
        due_at = epoch + interval '1 millisecond' * mailroom.pause_after(
            deferrals::bigint,
            250::bigint,
            (SELECT tokens.expires_at - expiry_bound FROM mailroom.issued_tokens AS tokens
                WHERE tokens.id = queue.token)::double precision
        ),
        deferrals = least(deferrals + 1, 100)::smallint
    WHERE token = ANY (deferred);

    -- What may have been delivered did not expire unsent: it is listed, until somebody looks at it.
    WITH ended AS (
        DELETE FROM mailroom.queue WHERE token = ANY (cancelled || expired)
        RETURNING queue.*, doubts > 0 AND token <> ALL (coalesce(cancelled, '{}')) AS is_in_doubt
    ),
    given_up AS (
        INSERT INTO mailroom.dead_letters (
            token, died_at, expires_at, attempts, failures, priority, reason, doubts
        )
        SELECT
            token, epoch, tokens.expires_at, attempts, failures, priority,
            expired_in_doubt, doubts
        FROM ended
        JOIN mailroom.issued_tokens AS tokens ON tokens.id = token
        WHERE is_in_doubt
        ON CONFLICT DO NOTHING
    )
    INSERT INTO mailroom.delivery_log (tokens, happened_at, collector_id, attempt, outcome, reason)
    SELECT
        ARRAY[token], epoch, collector, attempts,
        CASE
            WHEN place IS NOT NULL THEN 'cancelled'::mailroom.outcome
            WHEN is_in_doubt THEN 'dead'::mailroom.outcome
            ELSE 'expired'::mailroom.outcome
        END,
        CASE
            WHEN place IS NOT NULL THEN cancel_reasons[place]
            WHEN is_in_doubt THEN expired_in_doubt
            ELSE mailroom.expired_unsent()
        END
    FROM ended
    CROSS JOIN LATERAL pg_catalog.array_position(cancelled, token) AS place;

    PERFORM mailroom.delete_payloads(cancelled || expired);

    IF cardinality(suppressed) > 0 THEN
        WITH given_up AS (
            DELETE FROM mailroom.queue WHERE token = ANY (suppressed)
            RETURNING queue.*, suppression_reasons[pg_catalog.array_position(suppressed, token)]
                AS reason
        ),
        logged AS (
            INSERT INTO mailroom.delivery_log (tokens, happened_at, collector_id, attempt, outcome,
                reason)
            SELECT ARRAY[token], epoch, collector, attempts, 'dead', reason FROM given_up
        )
        INSERT INTO mailroom.dead_letters (
            token, died_at, expires_at, attempts, failures, priority, secret, code, reason,
                is_suppressed, doubts
        )
        SELECT
            token, epoch, tokens.expires_at, attempts, failures, priority,
            CASE WHEN is_unused THEN secret END,
            CASE WHEN is_unused THEN code END,
            reason, true, doubts
        FROM given_up
        JOIN mailroom.issued_tokens AS tokens ON tokens.id = token
        -- Used or cancelled while it was claimed, it keeps no secret.
        CROSS JOIN LATERAL (SELECT consumed_at IS NULL AND cancelled_at IS NULL AS is_unused) AS use
        ON CONFLICT DO NOTHING;
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.skip(bigint, timestamptz, bigint, bigint[], bigint[], text[],
    bigint[], bigint[], text[]) IS
    'Defers tokens that may not be sent yet, and takes those out of the queue that may not be sent '
    'at all: suppressed ones become dead letters.';

-- What is eligible is deleted and leased by one statement, which returns a row for each batch, its
-- tokens in arrays: a loop over tokens, and arrays cut into batches, took half of a claim's time.
-- Rows of the queue are deleted by their ctid.
CREATE FUNCTION mailroom.claim(
    collector bigint,
    wanted uuid[],
    batch_limit integer,
    partial boolean,
    scan_limit integer,
    turn integer,
    first_since timestamptz,
    second_since timestamptz,
    lease bigint,
    min_lifetime bigint,
    signable smallint[],
    binds boolean,
    rate_per_day bigint DEFAULT NULL,
    takes_doubtful boolean DEFAULT true,
    budget bigint DEFAULT NULL
) RETURNS TABLE (
    batch uuid, tokens bigint[], attempts integer[], actions smallint[], emails bytea[],
        names bytea[], secrets bytea[], codes bytea[],
    expirations bigint[], languages text[], payloads bytea[], bindings bytea[], doubts smallint[],
    scanned integer, waiting integer, expired integer, cancelled integer, deferred integer,
        unsignable integer, suppressed integer,
    dead_in_doubt integer,
    reason text, first_through timestamptz, second_through timestamptz, wait bigint,
        other_rate bigint, skipped text, due_since timestamptz[], claimed_at timestamptz,
        budget_left bigint, other_budget bigint, priorities smallint[], traceparents text[]
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_memoize = off SET jit = off
SET enable_nestloop = off SET enable_mergejoin = off SET enable_hashagg = off
SET work_mem = '32MB' AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom.clock();
    expiry_bound bigint := mailroom.expiry_bound(epoch, min_lifetime);
    capacity integer := cardinality(wanted) * batch_limit;
    is_limited boolean := rate_per_day IS NOT NULL OR budget IS NOT NULL;
    -- What is sent to the client needs no conversion then, and by its name an encoding is looked up
    -- for every text.
    is_utf8 boolean := getdatabaseencoding() = 'UTF8' AND pg_client_encoding() = 'UTF8';
    locked record;
    result record;
    eligible mailroom.checked_candidate[];
    others mailroom.checked_candidate[];
    taken integer := 0;
    -- What may not be sent.
    put_off bigint[];
    void bigint[];
    void_reasons text[];
    too_old bigint[];
    unwanted bigint[];
    unwanted_reasons text[];
BEGIN
    scanned := 0;
    waiting := 0;
    expired := 0;
    cancelled := 0;
    deferred := 0;
    unsignable := 0;
    suppressed := 0;
    dead_in_doubt := 0;

    IF is_limited THEN
        SELECT spent.wait, spent.other_rate, spent.other_budget, spent.budget_left
            INTO wait, other_rate, other_budget, budget_left
            FROM mailroom.spend(rate_per_day, budget, capacity, 0::bigint) AS spent;
    END IF;

    IF budget IS NULL AND (SELECT last_value FROM mailroom.budget_in_use) <> 0 THEN
        -- So that nobody is told of a budget that was taken away.
        PERFORM setval('mailroom.budget_in_use', 0);
    END IF;

    IF wait IS NULL THEN
        -- A statement of its own: the snapshots of those that follow have all rows that are locked
        -- by it. To assign it takes less than a query.
        locked := mailroom.lock_candidates(scan_limit, turn, coalesce(first_since, '-infinity'),
            coalesce(second_since, '-infinity'), epoch, takes_doubtful,
            NOT binds AND mailroom.others_sign_more(epoch));
        scanned := cardinality(locked.places);
        first_through := locked.first_through;
        second_through := locked.second_through;
    END IF;

    IF scanned > 0 THEN
        result := mailroom.check_candidates(locked.places, expiry_bound, signable, binds);
        eligible := result.checked;
        taken := result.eligible;

        IF taken < scanned THEN
            others := ARRAY(SELECT checked FROM pg_catalog.unnest(eligible) AS checked
                WHERE checked.verdict <> 'eligible');
            eligible := ARRAY(SELECT checked FROM pg_catalog.unnest(eligible) AS checked
                WHERE checked.verdict = 'eligible');
        END IF;

        taken := least(capacity, CASE WHEN partial THEN taken ELSE taken - taken % batch_limit END);
    END IF;

    IF taken > 0 AND is_limited THEN
        SELECT spent.granted, spent.wait, spent.budget_left INTO taken, wait, budget_left
            FROM mailroom.spend(rate_per_day, budget, capacity, taken::bigint) AS spent;
    END IF;

    IF taken > 0 THEN
        RETURN QUERY
        WITH
        batches AS MATERIALIZED (
            SELECT
                (nth - 1) / batch_limit + 1 AS ordinal,
                min(due_at) AS due_at,
                array_agg(place) AS places,
                array_agg(token) AS tokens,
                array_agg(attempt) AS attempts,
                array_agg(failures) AS failures,
                array_agg(priority) AS priorities,
                array_agg(secret) AS secrets,
                array_agg(code) AS codes,
                array_agg(waits_since) AS waits_since,
                array_agg(action) AS actions,
                array_agg(CASE WHEN is_utf8 THEN textsend(email) ELSE mailroom.to_utf8(email) END)
                    AS emails,
                array_agg(CASE WHEN is_utf8 THEN textsend(name) ELSE mailroom.to_utf8(name) END)
                    AS names,
                array_agg(CASE WHEN is_utf8 THEN textsend(code) ELSE mailroom.to_utf8(code) END)
                    AS utf8_codes,
                array_agg(expires_at) AS expirations,
                array_agg(language) AS languages,
                array_agg(mailroom.to_utf8(payload)) AS payloads,
                count(payload) > 0 AS has_payloads,
                array_agg(binding) AS bindings,
                CASE WHEN max(doubts) > 0 THEN array_agg(doubts) END AS doubts,
                CASE WHEN count(traceparent) > 0 THEN array_agg(traceparent) END AS traceparents
            FROM pg_catalog.unnest(eligible) WITH ORDINALITY AS checked (
                place, token, due_at, attempt, failures, priority, secret, code, action, email,
                    name, language, expires_at, binding,
                payload, verdict, fault, waits_since, doubts, traceparent, nth
            )
            WHERE nth <= taken
            GROUP BY 1
        ),
        removed AS (
            DELETE FROM mailroom.queue WHERE ctid = ANY (ARRAY(SELECT pg_catalog.unnest(places)
                FROM batches))
        ),
        leased AS (
            INSERT INTO mailroom.leases (
                batch, collector_id, claimed_at, renewed_at, ends_at, due_at, tokens, attempts,
                    failures, priorities, secrets, codes, has_payloads,
                waits_since, doubts
            )
            SELECT
                wanted[ordinal], collector, epoch, epoch,
                    epoch + interval '1 millisecond' * lease::double precision, due_at,
                tokens, attempts, failures, priorities, secrets, codes, has_payloads, waits_since,
                    doubts
            FROM batches
        )
        SELECT
            wanted[ordinal], tokens, attempts, actions, emails, names, secrets, utf8_codes,
                expirations, languages, payloads, bindings, doubts,
            NULL::integer, NULL::integer, NULL::integer, NULL::integer, NULL::integer,
                NULL::integer, NULL::integer, NULL::integer, NULL::text,
            NULL::timestamptz, NULL::timestamptz, NULL::bigint, NULL::bigint, NULL::text,
            waits_since, epoch, NULL::bigint, NULL::bigint, priorities, traceparents
        -- In the order of their ordinals, by which the aggregation sorts
        -- where enable_hashagg is off.
        FROM batches;
    END IF;

    IF taken < scanned THEN
        SELECT
            count(*) FILTER (WHERE verdict = 'eligible'), count(*)
                FILTER (WHERE verdict = 'expired' AND doubts = 0),
            count(*) FILTER (WHERE verdict = 'cancelled'), count(*)
                FILTER (WHERE verdict = 'ineligible'),
            count(*) FILTER (WHERE verdict = 'unsignable'), count(*)
                FILTER (WHERE verdict = 'suppressed'),
            count(*) FILTER (WHERE verdict = 'expired' AND doubts > 0),
            min(fault) FILTER (WHERE verdict = 'ineligible'),
            -- The next claim begins at what is left, or after what was looked at.
            coalesce(min(due_at) FILTER (WHERE verdict = 'eligible'
                AND priority = 0), first_through),
            coalesce(min(due_at) FILTER (WHERE verdict = 'eligible'
                AND priority <> 0), second_through),
            array_agg(token) FILTER (WHERE verdict IN ('ineligible', 'unsignable')),
            array_agg(token) FILTER (WHERE verdict = 'cancelled'), array_agg(fault)
                FILTER (WHERE verdict = 'cancelled'),
            array_agg(token) FILTER (WHERE verdict = 'expired'),
            array_agg(token) FILTER (WHERE verdict = 'suppressed'), array_agg(fault)
                FILTER (WHERE verdict = 'suppressed')
        INTO
            waiting, expired, cancelled, deferred, unsignable, suppressed, dead_in_doubt, reason,
                first_through, second_through,
            put_off, void, void_reasons, too_old, unwanted, unwanted_reasons
        FROM pg_catalog.unnest(eligible[taken + 1:] || others);

        IF coalesce(put_off, void, too_old, unwanted) IS NOT NULL THEN
            PERFORM mailroom.skip(collector, epoch, expiry_bound, put_off, void, void_reasons,
                too_old, unwanted, unwanted_reasons);
            skipped := (
                SELECT jsonb_agg(jsonb_build_object('verdict', verdict, 'reason', fault, 'count',
                    count, 'ids', ids, 'traceparents', traceparents))::text
                FROM (
                    SELECT verdict, fault, count(*) AS count, (array_agg(token))[1:10] AS ids,
                        coalesce(
                            (array_agg(traceparent) FILTER (WHERE traceparent IS NOT NULL))[1:10],
                            '{}'
                        ) AS traceparents
                    FROM pg_catalog.unnest(others)
                    GROUP BY verdict, fault
                    ORDER BY count(*) DESC
                    LIMIT 20
                ) AS alike
            );
        END IF;
    END IF;

    -- The last row has no batch, and says what was found.
    first_through := coalesce(first_through, first_since);
    second_through := coalesce(second_through, second_since);
    RETURN NEXT;
END;
$$;

COMMENT ON FUNCTION mailroom.claim(
    bigint, uuid[], integer, boolean, integer, integer, timestamptz, timestamptz, bigint, bigint,
        smallint[], boolean, bigint, boolean, bigint
) IS
    'For collectors: claims batches of what is due, of actions that can be signed; bound links '
    'only if it can bind; and what may have been delivered already only on demand, since that is '
    'no trial of a sender. The last row has no batch, and says what was found: skipped is '
    'JSON, of what was not claimed by verdict and reason the count and some ids. Due_since says '
    'since when each token was due, by the clock that claimed_at shows. Priorities are as in '
    'actions when each token was queued; traceparents as in issued_tokens, or null if no token '
    'has any. The span of the lease is milliseconds, min_lifetime seconds; the rate, if there is '
    'one, tokens a day for all collectors, and the budget tokens a month. Budget_left is what is '
    'left of it; other_rate and other_budget are those at which others claim, if they are others.';

CREATE FUNCTION mailroom.list_actions() RETURNS TABLE (
    number smallint, name text, path text, code_digits smallint, token_format text
)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT actions.number, actions.name, actions.path, actions.code_digits,
        installation.token_format
    FROM mailroom.actions CROSS JOIN mailroom.installation
    ORDER BY actions.number;
END;

COMMENT ON FUNCTION mailroom.list_actions() IS
    'For collectors: what there is to sign, and in which format unless a collector is told '
    'another one.';

-- What collectors call now and then beside claiming: to keep their leases, to find out what waits,
-- and to clear away.

CREATE FUNCTION mailroom.return_lapsed_leases(since timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom.clock();
BEGIN
    WITH
    -- Whoever is settling or taking over one of them just now is not waited for.
    lapsed AS MATERIALIZED (
        SELECT batch FROM mailroom.leases
        WHERE ends_at >= return_lapsed_leases.since AND ends_at <= epoch
        ORDER BY ends_at
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    ),
    gone AS (
        DELETE FROM mailroom.leases
        WHERE batch = ANY (ARRAY(SELECT batch FROM lapsed))
        RETURNING *
    ),
    items AS (
        SELECT gone.collector_id, gone.batch, gone.due_at, leased.*
        FROM gone
        CROSS JOIN LATERAL mailroom.leased_tokens(gone::mailroom.leases) AS leased
    ),
    logged AS (
        INSERT INTO mailroom.delivery_log (
            tokens, happened_at, collector_id, batch, attempt, outcome
        )
        SELECT ARRAY[token], epoch, collector_id, batch, attempt, 'lapsed' FROM items
    )
    INSERT INTO mailroom.queue (token, due_at, attempts, failures, priority, secret, code,
        waits_since, doubts)
    SELECT
        token, least(due_at, mailroom.clock()), attempt, failures, priority, secret, code,
            waits_since,
        doubts
    FROM items
    ON CONFLICT DO NOTHING;
END;
$$;

COMMENT ON FUNCTION mailroom.return_lapsed_leases(timestamptz) IS
    'Puts the tokens of leases back that have lapsed, and logs it.';

-- A sequence, which has no versions: nothing grows under an old snapshot, and nobody waits for
-- another's commit.
CREATE SEQUENCE mailroom.low_watermark MINVALUE 0 START 0;

COMMENT ON SEQUENCE mailroom.low_watermark IS
    'Not counted up: the time before which nothing in the queue was due when a collector looked '
    'last, in microseconds since the Unix epoch; 0 if that is not known. '
    'A new collector begins there.';

-- What a collector does every few seconds: says that it lives and what it holds, and gives back
-- what nobody holds any more. A call that comes late, when its collector has long had another
-- connection, changes nothing of what that claimed since. Leases lapse if it takes too long, so
-- nothing in it grows with the number of tokens that wait.
CREATE FUNCTION mailroom.heartbeat(
    collector bigint, name text, held uuid[], lease bigint, since timestamptz,
    state text DEFAULT NULL, state_for bigint DEFAULT 0, state_reason text DEFAULT NULL,
    token_format text DEFAULT NULL, installation text DEFAULT NULL, version text DEFAULT NULL,
    settings text DEFAULT NULL, counts text DEFAULT NULL
)
RETURNS TABLE (batch uuid, low_watermark timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom.clock();
    since_when timestamptz := epoch - interval '1 millisecond' * greatest(state_for,
        0::bigint)::double precision;
    kept uuid[];
    own_name text;
BEGIN
    -- A collector calls this before it claims anything. A copy of a product's database must not
    -- mail its people.
    IF (SELECT system_identifier <> mailroom.cluster_identifier() FROM mailroom.installation) THEN
        RAISE EXCEPTION
            'this queue belongs to another PostgreSQL cluster, from which its database was '
            'restored or upgraded; if this'
            ' cluster is to send its mails, and no other, run `mailroom migrate bind`'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;

    INSERT INTO mailroom.collectors (
        collector_id, name, started_at, seen_at, state, state_since, state_reason,
        token_format, installation, version, settings, counts
    )
    VALUES (
        collector, heartbeat.name, epoch, epoch, heartbeat.state, since_when,
        heartbeat.state_reason, heartbeat.token_format, heartbeat.installation,
        heartbeat.version, heartbeat.settings::json, heartbeat.counts::json
    )
    ON CONFLICT DO NOTHING;

    IF FOUND THEN
        -- Only of one that comes: one that was here when the name was given may have mails on their
        -- way, which would go out again if it could not settle them.
        SELECT known.name INTO own_name FROM mailroom.installation AS known
        WHERE known.name IS DISTINCT FROM heartbeat.installation;

        IF own_name IS NOT NULL THEN
            RAISE EXCEPTION
                'this queue is that of the installation "%", which this collector does not name: '
                'if it is to send the mails of that one, set MAILROOM_INSTALLATION=%; if this is a '
                'copy of its database, run `mailroom migrate bind --name` with a name of its own',
                own_name, own_name
                USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;

        -- One that is new knows nothing yet. Wrong is what it learns here only by a clock that was
        -- set back; each minute it looks further back.
        SELECT 'epoch'::timestamptz + interval '1 microsecond' * last_value INTO low_watermark
        FROM mailroom.low_watermark
        WHERE last_value > 0;
        low_watermark := CASE WHEN low_watermark <= epoch THEN low_watermark END;
    ELSE
        -- Three times a minute, and when something is new: an idle server has little to write.
        UPDATE mailroom.collectors
        SET seen_at = epoch, state = heartbeat.state, state_since = since_when,
            state_reason = heartbeat.state_reason,
            token_format = heartbeat.token_format, installation = heartbeat.installation,
            version = heartbeat.version,
            settings = coalesce(heartbeat.settings::json, collectors.settings),
            counts = heartbeat.counts::json
        WHERE collector_id = collector
            AND (
                seen_at NOT BETWEEN epoch - interval '20 seconds' AND epoch
                OR state IS DISTINCT FROM heartbeat.state
                OR state_reason IS DISTINCT FROM heartbeat.state_reason
                OR token_format IS DISTINCT FROM heartbeat.token_format
                OR installation IS DISTINCT FROM heartbeat.installation
                OR state_since NOT BETWEEN since_when - interval '5 seconds'
                    AND since_when + interval '5 seconds'
            );

        low_watermark := since;
        -- Only if it is another: an idle server has nothing to write.
        PERFORM setval('mailroom.low_watermark', told.micros)
        FROM (SELECT greatest(floor(extract(epoch FROM coalesce(since, 'epoch')) * 1000000),
            0)::bigint AS micros) AS told
        JOIN mailroom.low_watermark AS stored ON stored.last_value <> told.micros;
    END IF;

    -- Own leases, also lapsed ones that nobody has taken over.
    WITH renewed AS (
        UPDATE mailroom.leases
        SET renewed_at = epoch, ends_at = epoch + interval '1 millisecond' * lease::double precision
        WHERE batch = ANY (held) AND collector_id = collector
        RETURNING batch
    )
    SELECT pg_catalog.array_agg(batch) INTO kept FROM renewed;

    -- Leases that were renewed in the future: the clock was set back. Who lives renews them within
    -- their time, which begins now; what nobody renews lapses. By a clock that was read after
    -- whatever this call has waited for: others have renewed theirs meanwhile.
    epoch := mailroom.clock();

    UPDATE mailroom.leases
    SET renewed_at = epoch, ends_at = epoch + (ends_at - renewed_at)
    WHERE batch = ANY (ARRAY(
        SELECT misplaced.batch
        FROM mailroom.leases AS misplaced
        WHERE ends_at > epoch + interval '1 second' AND renewed_at > epoch + interval '1 second'
        FOR UPDATE SKIP LOCKED
    ));

    PERFORM mailroom.return_lapsed_leases(coalesce(low_watermark, '-infinity'));

    RETURN QUERY SELECT kept_batch, NULL::timestamptz FROM pg_catalog.unnest(kept) AS kept_batch;
    batch := NULL;
    RETURN NEXT;
END;
$$;

COMMENT ON FUNCTION mailroom.heartbeat(bigint, text, uuid[], bigint, timestamptz, text, bigint,
    text, text, text, text, text, text) IS
    'For collectors: renews the leases held, answers which of them still are, and returns to the '
    'queue what others left behind. Records the sender''s state, as in collectors, for how long it '
    'has been, and why; and the format of tokens and the name of an installation that the '
    'collector has; its version, and as JSON its settings and what it has done. One that comes '
    'with another name than bind() was told is refused. The last row '
    'has no batch, and the time before which nothing in the queue is due, as far as it is known. '
    'Spans are milliseconds.';

CREATE FUNCTION mailroom.bind(name text DEFAULT NULL) RETURNS text
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    UPDATE mailroom.installation
    SET system_identifier = mailroom.cluster_identifier(),
        name = nullif(coalesce(bind.name, installation.name), '')
    RETURNING installation.name;
END;

COMMENT ON FUNCTION mailroom.bind(text) IS
    'For owners: from now on the queue is sent from this cluster, whichever it was sent from '
    'before, by collectors that name the installation so. Null leaves its name, and an empty '
    'name takes it away. Answers the name.';

-- What a collector does now and then when it is otherwise fine. Nobody needs it soon, so it goes
-- round in small parts.
--
-- Locks: rows of the queue that nobody claims yet, of dead letters, of what was handed over, and of
-- payloads. None is waited for: an application that has one can wait for another one.
CREATE FUNCTION mailroom.sweep(later_after timestamptz, most integer, OUT later_through timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
-- Rows that are locked are passed over; a table that is locked is not waited for either.
SET lock_timeout = 300 AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom.clock();
    later timestamptz := greatest(epoch + interval '1 second', later_after);
    second bigint := floor(extract(epoch FROM epoch))::bigint;
    misplaced bigint[];
BEGIN
    -- What was put off waits for its time. All else that lies in the future lies there because the
    -- clock was set back, and so does what was put off in the future, which waits for its pause
    -- from now on. Rows of the same time are looked at together.
    SELECT min(bound.due_at) INTO later_through
    FROM (
        (
            SELECT due_at FROM mailroom.queue
            WHERE priority = 0::smallint AND due_at > later
            ORDER BY due_at
            OFFSET most LIMIT 1
        )
        UNION ALL
        (
            SELECT due_at FROM mailroom.queue
            WHERE priority = 1::smallint AND due_at > later
            ORDER BY due_at
            OFFSET most LIMIT 1
        )
    ) AS bound;

    misplaced := ARRAY(
        SELECT token FROM mailroom.queue
        WHERE priority IN (0::smallint, 1::smallint)
            AND due_at > later
            AND due_at <= coalesce(later_through, 'infinity'::timestamptz)
            AND (put_off_at IS NULL OR put_off_at > epoch + interval '1 second')
        FOR UPDATE SKIP LOCKED
    );

    -- By a clock that is read when the transaction has its number, as peek() needs it.
    epoch := mailroom.clock();

    UPDATE mailroom.queue
    SET due_at = CASE WHEN put_off_at IS NULL THEN epoch
        ELSE epoch + greatest(due_at - put_off_at, interval '0 seconds') END,
        put_off_at = CASE WHEN put_off_at IS NOT NULL THEN epoch END
    WHERE token = ANY (misplaced);

    -- Nobody can use what has expired, and a secret that is not there cannot leak.
    WITH erased AS (
        UPDATE mailroom.dead_letters
        SET secret = NULL, code = NULL
        WHERE token = ANY (ARRAY(
            SELECT token FROM mailroom.dead_letters
            WHERE secret IS NOT NULL AND expires_at <= second
            ORDER BY expires_at
            LIMIT most
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING token
    )
    DELETE FROM mailroom.payloads
    WHERE token = ANY (ARRAY(
        SELECT token FROM mailroom.payloads WHERE token = ANY (ARRAY(SELECT token FROM erased))
        FOR UPDATE SKIP LOCKED
    ));

    -- Of what was handed over and had no verdict, whoever has used the link has the mail, and
    -- nobody waits for what was cancelled or deleted. The rest stays handed over.
    WITH expired AS MATERIALIZED (
        SELECT
            token,
            coalesce((
                SELECT CASE
                    WHEN consumed_at IS NOT NULL THEN 'sent'
                    WHEN cancelled_at IS NOT NULL THEN 'cancelled'
                    ELSE 'handed_over'
                END
                FROM mailroom.issued_tokens WHERE id = token
            ), 'cancelled')::mailroom.outcome AS outcome
        FROM mailroom.handed_over
        WHERE expires_at <= second AND NOT is_expired
        ORDER BY expires_at
        LIMIT most
        FOR UPDATE SKIP LOCKED
    ),
    ended AS (
        DELETE FROM mailroom.handed_over
        WHERE token = ANY (ARRAY(SELECT token FROM expired WHERE outcome <> 'handed_over'))
        RETURNING token, attempts
    ),
    logged AS (
        INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome, reason)
        SELECT
            ARRAY[ended.token], epoch, ended.attempts, expired.outcome,
            CASE expired.outcome WHEN 'sent' THEN 'its link was used'
                ELSE 'it was cancelled or deleted before' END
        FROM ended JOIN expired ON expired.token = ended.token
    ),
    erased AS (
        UPDATE mailroom.handed_over
        SET secret = NULL, code = NULL, is_expired = true
        WHERE token = ANY (ARRAY(SELECT token FROM expired WHERE outcome = 'handed_over'))
    )
    DELETE FROM mailroom.payloads
    WHERE token = ANY (ARRAY(
        SELECT token FROM mailroom.payloads WHERE token = ANY (ARRAY(SELECT token FROM expired))
        FOR UPDATE SKIP LOCKED
    ));
END;
$$;

COMMENT ON FUNCTION mailroom.sweep(timestamptz, integer) IS
    'For collectors: makes due what lies in the future for no other reason than a clock that was '
    'set back, somewhat more than most after a time, and erases the secrets of dead letters and of '
    'what was handed over, that have expired, and ends what was handed over and used; answers how '
    'far it came, null at the end.';

-- Asked by a collector before it sleeps, and now and then. Sees rows that others are just claiming,
-- which may fail to, and such as turn out to be ineligible, which a claim clears away.
--
-- What it answers besides tells from what time on a later look has to begin. Rows enter the queue
-- by a transaction that has its number before it reads the clock, or at the place of a lease, which
-- is in view until then. So when all transactions that had a number at `asked_at` have ended,
-- nothing can come any more that is older than that, nor than what is in view. Those below
-- `unfinished` have. Whether any has a number from `unended` on, no snapshot tells: the caller
-- takes one afterwards.
CREATE FUNCTION mailroom.peek(
    since timestamptz,
    enough integer,
    OUT due bigint,
    OUT lapsed bigint,
    OUT next_after bigint,
    OUT asked_at timestamptz,
    OUT oldest_place timestamptz,
    OUT unfinished bigint,
    OUT unended bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    horizon timestamptz := coalesce(since, '-infinity');
    next_at timestamptz;
BEGIN
    asked_at := mailroom.clock();

    -- One statement, one snapshot: a token that moves between the tables is in one of them.
    SELECT
        coalesce(sum(place.tokens) FILTER (WHERE place.claimable_at <= asked_at),
            0::numeric)::bigint,
        coalesce(
            sum(place.tokens) FILTER (WHERE place.claimable_at <= asked_at
                AND place.is_leased), 0::numeric
        )::bigint,
        min(place.claimable_at) FILTER (WHERE place.claimable_at > asked_at),
        -- A lease lies where it lapses if that is earlier, as after a clock that was set back.
        min(least(place.due_at, place.claimable_at)),
        pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
        pg_snapshot_xmax(pg_current_snapshot())::text::bigint
    INTO due, lapsed, next_at, oldest_place, unfinished, unended
    FROM (
        (
            SELECT due_at, due_at AS claimable_at, 1::bigint AS tokens, false AS is_leased
                FROM mailroom.queue
            WHERE priority = 0::smallint AND due_at >= horizon
            ORDER BY due_at
            LIMIT enough
        )
        UNION ALL
        (
            SELECT due_at, due_at, 1::bigint, false FROM mailroom.queue
            WHERE priority = 1::smallint AND due_at >= horizon
            ORDER BY due_at
            LIMIT enough
        )
        UNION ALL
        SELECT due_at, ends_at, pg_catalog.cardinality(tokens)::bigint, true FROM mailroom.leases
            WHERE ends_at >= horizon
    ) AS place;

    next_after := ceil(extract(epoch FROM next_at - asked_at) * 1000::numeric)::bigint;
END;
$$;

COMMENT ON FUNCTION mailroom.peek(timestamptz, integer) IS
    'For collectors: how many tokens are due, counted to somewhere above enough, and how many of '
    'them are in leases that have lapsed; in how many milliseconds the next thing is, null if '
    'nothing waits; and from what time on to look.';

-- Dead letters that go out again or are discarded, and addresses that are suppressed.

CREATE FUNCTION mailroom.retry(tokens bigint[])
RETURNS TABLE (token bigint, is_in_doubt boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom.clock();
    letter mailroom.dead_letters;
    expired mailroom.issued_tokens;
    outer_binding text := current_setting('mailroom.binding', true);
    is_renewed boolean;
BEGIN
    -- In the order in which whoever locks tokens does so.
    FOR letter IN
        WITH put_back AS (
            DELETE FROM mailroom.dead_letters WHERE token = ANY (retry.tokens)
            RETURNING *
        )
        SELECT * FROM put_back ORDER BY token
    LOOP
        token := letter.token;
        is_in_doubt := letter.is_in_doubt;

        SELECT tokens.* INTO expired
        FROM mailroom.issued_tokens AS tokens
        JOIN mailroom.actions ON number = action
        WHERE id = letter.token
            AND tokens.expires_at <= extract(epoch FROM epoch)
            AND consumed_at IS NULL
            AND cancelled_at IS NULL
            AND NOT is_retired
        -- Whoever ends it just now is waited for, and ends what this makes if he comes later.
        FOR NO KEY UPDATE OF tokens;

        -- Its secret is erased, so a new token is made in its place, with its binding, and with
        -- the payload if that still exists.
        IF FOUND THEN
            is_renewed := false;

            -- An account's token is inserted into the accounts' table of tokens, so it goes to the
            -- account's present address.
            IF to_regclass('mailroom.adopted_tokens') IS NOT NULL THEN
                PERFORM set_config('mailroom.binding',
                    coalesce(encode(expired.binding, 'hex'), ''), true);
                INSERT INTO mailroom.adopted_tokens (account, action)
                SELECT account, action FROM mailroom.adopted_tokens WHERE id = expired.id;
                is_renewed := FOUND;

                -- A registration has no row there once secrets were dropped. Its address need not
                -- be one that enqueue() takes.
                IF NOT is_renewed AND expired.action = 1 AND NOT expired.has_payload
                    AND expired.subject_id ~ '^(0|[1-9][0-9]{0,17})$' THEN
                    INSERT INTO mailroom.adopted_tokens (account, action)
                    SELECT id, 'activation'
                    FROM mailroom.adopted_accounts
                    WHERE id = expired.subject_id::bigint
                        AND email::text = expired.recipient_email COLLATE "C"
                        AND login::text = expired.recipient_name COLLATE "C";
                    is_renewed := FOUND;
                END IF;

                PERFORM set_config('mailroom.binding', coalesce(outer_binding, ''), true);
            END IF;

            IF NOT is_renewed THEN
                PERFORM mailroom.enqueue(
                    actions.name, expired.recipient_email, expired.recipient_name,
                    expired.subject_id,
                    (SELECT payload FROM mailroom.payloads WHERE payloads.token = expired.id),
                    expired.language, NULL::timestamptz, NULL::text, expired.binding,
                    expired.notice_recipient, expired.traceparent
                )
                FROM mailroom.actions
                WHERE number = expired.action;
            END IF;

            INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome, reason)
            VALUES (
                ARRAY[letter.token], epoch, letter.attempts,
                CASE WHEN is_in_doubt THEN 'dead' ELSE 'expired' END::mailroom.outcome,
                CASE WHEN is_in_doubt THEN mailroom.doubtful('a new mail was made in its place') END
            );
            RETURN NEXT;
            CONTINUE;
        END IF;

        -- What cannot be used any more is ended by the next claim. Senders know the attempts in
        -- doubt, so the count stays: with one more doubt the token is given up again.
        INSERT INTO mailroom.queue (token, due_at, attempts, priority, secret, code, doubts)
        VALUES (
            letter.token, mailroom.clock(), letter.attempts, letter.priority,
            coalesce(letter.secret, ''::bytea), letter.code, letter.doubts
        )
        ON CONFLICT DO NOTHING;

        IF FOUND THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END;
$$;

COMMENT ON FUNCTION mailroom.retry(bigint[]) IS
    'Puts dead letters back, with all their attempts left; answers which, and whether they may '
    'have been delivered before. What has expired meanwhile, and was neither used nor cancelled, '
    'is logged as expired, or again as a dead letter that may have been delivered, '
    'and gets a new token.';

-- A function of its own: an array that is null by mistake must not put everything back.
CREATE FUNCTION mailroom.retry_all(in_doubt boolean DEFAULT false)
RETURNS TABLE (token bigint, is_in_doubt boolean)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off
BEGIN ATOMIC
    SELECT retried.token, retried.is_in_doubt
    FROM mailroom.retry(ARRAY(
        SELECT letter.token FROM mailroom.dead_letters AS letter
        WHERE retry_all.in_doubt OR NOT letter.is_in_doubt
    )) AS retried;
END;

COMMENT ON FUNCTION mailroom.retry_all(boolean) IS
    'Puts all dead letters back, with all their attempts left; answers which. Those that may have '
    'been delivered only with in_doubt.';

-- The token stays as it is: if an earlier attempt delivered the mail after all,
-- its link goes on working.
CREATE FUNCTION mailroom.discard(tokens bigint[]) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH
    discarded AS (
        DELETE FROM mailroom.dead_letters WHERE token = ANY (discard.tokens)
            RETURNING token, attempts
    ),
    emptied AS (
        DELETE FROM mailroom.payloads WHERE token = ANY (ARRAY(SELECT token FROM discarded))
    ),
    logged AS (
        INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome, reason)
        SELECT ARRAY[token], mailroom.clock(), attempts, 'cancelled', 'discarded' FROM discarded
    )
    SELECT token FROM discarded;
END;
$$;

COMMENT ON FUNCTION mailroom.discard(bigint[]) IS
    'Deletes dead letters, which nobody can put back then, and logs them as cancelled, with the '
    'reason discarded; answers which.';

CREATE FUNCTION mailroom.discard_all(older_than interval DEFAULT '0') RETURNS SETOF bigint
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off
BEGIN ATOMIC
    SELECT mailroom.discard(ARRAY(
        SELECT token FROM mailroom.dead_letters WHERE died_at <= mailroom.clock() -
            discard_all.older_than
    ));
END;

COMMENT ON FUNCTION mailroom.discard_all(interval) IS
    'Deletes all dead letters that were given up so long ago, as discard() does; answers which.';

-- For programs that read bounces, whose role needs this alone. What is known stays as it is, so
-- that a notification that comes again changes nothing. Of what was said, addresses and what looks
-- like a token are left out.
CREATE FUNCTION mailroom.suppress(address text, reason text, provider text DEFAULT NULL,
    detail text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    fault text := CASE
        WHEN mailroom.is_address(suppress.address) IS NOT TRUE
            THEN 'what is to be suppressed is no address'
        WHEN (suppress.reason IN ('bounce', 'complaint', 'manual')) IS NOT TRUE
            THEN 'reason is not bounce, complaint or manual'
    END;
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'mailroom.suppress(): %', fault USING ERRCODE = 'invalid_parameter_value';
    END IF;

    INSERT INTO mailroom.suppressions (address, reason, provider, detail, suppressed_at)
    VALUES (
        mailroom.normal_address(suppress.address), suppress.reason, suppress.provider,
        left(regexp_replace(regexp_replace(regexp_replace(
            left(suppress.detail, 1000),
            '[[:space:][:cntrl:]]+', ' ', 'g'),
            '[^ ]*(@|%40)[^ ]*', '[address]', 'g'),
            '[^ ]*[A-Za-z0-9_-]{32}[^ ]*', '[secret]', 'g'
        ), 200),
        mailroom.clock()
    )
    ON CONFLICT ON CONSTRAINT suppressions_pkey DO NOTHING;

    RETURN FOUND;
END;
$$;

COMMENT ON FUNCTION mailroom.suppress(text, text, text, text) IS
    'Suppresses an address: mails to it become dead letters when they are claimed. Returns false '
    'if it was suppressed already. reason is bounce, complaint or manual.';

CREATE FUNCTION mailroom.lift_suppression(address text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    DELETE FROM mailroom.suppressions WHERE address =
        mailroom.normal_address(lift_suppression.address);
    RETURN FOUND;
END;
$$;

COMMENT ON FUNCTION mailroom.lift_suppression(text) IS
    'Lets mails for an address go out again, except for those that were given up: retry() puts '
    'them back. Answers whether it was suppressed.';

CREATE VIEW mailroom.suppressed_addresses AS
SELECT address, reason, provider, detail, suppressed_at FROM mailroom.suppressions;

COMMENT ON VIEW mailroom.suppressed_addresses IS
    'Addresses that get no mails, and why; for applications and operators.';

-- Where each token stands, and what happened to it.

CREATE VIEW mailroom.delivery_attempts AS
SELECT
    item.token, log.happened_at, log.collector_id, log.batch, log.attempt, log.outcome, log.reason
FROM mailroom.delivery_log AS log
CROSS JOIN LATERAL pg_catalog.unnest(log.tokens) AS item (token);

COMMENT ON VIEW mailroom.delivery_attempts IS
    'The delivery log with a row for each token. Of a single token, history(token) has the same '
    'without reading all of the log.';

CREATE FUNCTION mailroom.history(token bigint) RETURNS TABLE (
    happened_at timestamptz, collector_id bigint, batch uuid, attempt integer,
    outcome mailroom.outcome,
        reason text
)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
BEGIN ATOMIC
    SELECT log.happened_at, log.collector_id, log.batch, log.attempt, log.outcome, log.reason
    FROM mailroom.delivery_log AS log
    WHERE log.tokens[1] / 256 = history.token / 256 AND history.token = ANY (log.tokens)
    ORDER BY log.happened_at, log.attempt;
END;

COMMENT ON FUNCTION mailroom.history(bigint) IS
    'For operators: the delivery attempts of a token, the oldest first.';

-- Joined, not looked up for each token: a search of all leases for every token takes seconds where
-- there are many of both.
CREATE VIEW mailroom.deliveries AS
SELECT
    tokens.id AS token,
    place.state,
    place.attempts,
    place.since,
    place.collector_id,
    collectors.name AS collector,
    place.batch,
    place.reason,
    place.doubts
FROM mailroom.issued_tokens AS tokens
LEFT JOIN mailroom.queue ON queue.token = tokens.id
LEFT JOIN mailroom.dead_letters AS dead ON dead.token = tokens.id
LEFT JOIN mailroom.handed_over ON handed_over.token = tokens.id
LEFT JOIN (
    SELECT
        item.token, item.attempt, leases.claimed_at, leases.collector_id, leases.batch,
        coalesce(item.doubts, 0::smallint) AS doubts
    FROM mailroom.leases
    CROSS JOIN LATERAL ROWS FROM (
        pg_catalog.unnest(leases.tokens), pg_catalog.unnest(leases.attempts),
        pg_catalog.unnest(leases.doubts)
    ) AS item (token, attempt, doubts)
) AS leased ON leased.token = tokens.id
LEFT JOIN LATERAL (
    SELECT log.outcome::text, log.attempt, log.happened_at, log.collector_id, log.batch, log.reason
    FROM mailroom.delivery_log AS log
    WHERE log.tokens[1] / 256 = tokens.id / 256 AND tokens.id = ANY (log.tokens)
    ORDER BY log.happened_at DESC, log.attempt DESC
    LIMIT 1
) AS last ON true
CROSS JOIN mailroom.installation
CROSS JOIN LATERAL (
    SELECT
        'queued' AS state, queue.attempts, queue.due_at AS since, NULL::bigint AS collector_id,
        NULL::uuid AS batch, NULL::text AS reason, queue.doubts
    WHERE queue.deferrals = 0
    UNION ALL
    SELECT
        'deferred', queue.attempts, queue.put_off_at, NULL, NULL,
        'its subject is not eligible for it, or collectors cannot sign it', queue.doubts
    WHERE queue.deferrals > 0
    UNION ALL
    SELECT 'dead', dead.attempts, dead.died_at, NULL, NULL, dead.reason, dead.doubts
    WHERE dead.token IS NOT NULL
    UNION ALL
    SELECT
        'leased', leased.attempt, leased.claimed_at, leased.collector_id, leased.batch, NULL,
        leased.doubts
    WHERE leased.token IS NOT NULL
    UNION ALL
    SELECT
        'handed_over', handed_over.attempts, handed_over.handed_over_at, NULL, NULL, NULL,
        handed_over.doubts
    WHERE handed_over.token IS NOT NULL
    UNION ALL
    SELECT
        last.outcome, last.attempt, last.happened_at, last.collector_id, last.batch, last.reason,
        NULL::smallint
    WHERE last.outcome IS NOT NULL
    UNION ALL
    SELECT 'unrecorded', NULL, NULL, NULL, NULL, 'the log begins at ' || log_complete_since, NULL
    LIMIT 1
) AS place
LEFT JOIN mailroom.collectors ON collectors.collector_id = place.collector_id;

COMMENT ON VIEW mailroom.deliveries IS
    'Where a token stands: queued, deferred, leased, handed_over to a broker, or dead; or how it '
    'ended: sent, expired or cancelled; or unrecorded, if that was before the log began. With the '
    'number of delivery attempts, since when, by whom and why, and, until it has ended, how many '
    'attempts ended in doubt: nobody knows whether the mail was accepted. For tokens that are '
    'named: to look for a state reads all of them, where the view waiting reads what has that '
    'state.';

-- A branch for each place, so that a condition on state leaves the others out; and the row of a
-- token by a look-up: a join could read all of them.
CREATE VIEW mailroom.waiting AS
SELECT
    place.token,
    place.state,
    known.action,
    place.attempts,
    place.doubts,
    place.since,
    known.expires_at,
    place.collector_id,
    (SELECT name FROM mailroom.collectors WHERE collectors.collector_id = place.collector_id)
        AS collector,
    place.batch,
    place.reason
FROM (
    SELECT
        token, 'queued' AS state, attempts, doubts, due_at AS since, NULL::bigint AS collector_id,
        NULL::uuid AS batch, NULL::text AS reason
    FROM mailroom.queue
    WHERE deferrals = 0
    UNION ALL
    SELECT
        token, 'deferred', attempts, doubts, put_off_at, NULL, NULL,
        'its subject is not eligible for it, or collectors cannot sign it'
    FROM mailroom.queue
    WHERE deferrals > 0
    UNION ALL
    SELECT
        item.token, 'leased', item.attempt, coalesce(item.doubts, 0::smallint), claimed_at,
        collector_id, batch, NULL
    FROM mailroom.leases
    CROSS JOIN LATERAL ROWS FROM (
        pg_catalog.unnest(tokens), pg_catalog.unnest(leases.attempts),
        pg_catalog.unnest(leases.doubts)
    ) AS item (token, attempt, doubts)
    UNION ALL
    SELECT token, 'handed_over', attempts, doubts, handed_over_at, NULL, NULL, NULL
    FROM mailroom.handed_over
    UNION ALL
    SELECT token, 'dead', attempts, doubts, died_at, NULL, NULL, reason
    FROM mailroom.dead_letters
) AS place
LEFT JOIN LATERAL (
    SELECT
        (SELECT name FROM mailroom.actions WHERE number = tokens.action) AS action,
        to_timestamp(tokens.expires_at::double precision) AS expires_at
    FROM mailroom.issued_tokens AS tokens
    WHERE tokens.id = place.token
    OFFSET 0
) AS known ON true;

COMMENT ON VIEW mailroom.waiting IS
    'What is not done: each token that is queued, deferred, leased, handed_over or dead, as in '
    'deliveries, with the name of its action. It reads what has the state that is asked for, so '
    'that all dead letters can be listed, however many tokens there are.';

-- What is known of a token, each by a look-up, also where its row is pruned. Within a second, which
-- is what the token's own times have, things come in the order in which they can happen.
CREATE FUNCTION mailroom.trace_token(traced bigint, epoch timestamptz) RETURNS TABLE (
    token bigint, happened_at timestamptz, event text, attempt integer, action text, collector text,
    provider text, message_id text, detail text
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH
    known AS (
        SELECT
            tokens.*,
            -- A notice has none.
            NOT EXISTS (
                SELECT FROM mailroom.actions WHERE number = tokens.action AND path IS NULL
            ) AS has_link
        FROM mailroom.issued_tokens AS tokens
        WHERE id = traced
    ),
    told (
        rank, happened_at, event, attempt, action, collector_id, provider, message_id, detail
    ) AS (
        SELECT
            0, to_timestamp(created_at), 'enqueued', NULL::integer, action, NULL::bigint,
                NULL::text, NULL::text,
            CASE WHEN has_link THEN 'its link ends at ' ELSE 'it can be sent until ' END
                || to_char(to_timestamp(expires_at) AT TIME ZONE 'UTC',
                    'YYYY-MM-DD"T"HH24:MI:SS"Z"')
                || coalesce(', in trace ' || substr(traceparent, 4, 32), '')
        FROM known
        UNION ALL
        SELECT 1, suppressed_at, 'suppressed', NULL, NULL, NULL, suppression.provider, NULL,
            'the address gets no mails (' || reason || ')' || coalesce(': ' || suppression.detail,
            '')
        FROM known
        JOIN mailroom.suppressions AS suppression ON address =
            mailroom.normal_address(recipient_email)
        UNION ALL
        SELECT 1, accepted_at, 'accepted', attempt, action, NULL, provider, message_id, answer
        FROM mailroom.receipts
        WHERE token = traced
        UNION ALL
        SELECT 1, log.happened_at, outcome::text, attempt, NULL, collector_id, NULL, NULL, reason
        FROM mailroom.delivery_log AS log
        WHERE tokens[1] / 256 = traced / 256 AND traced = ANY (tokens)
        UNION ALL
        SELECT 2, to_timestamp(consumed_at), 'redeemed', NULL, NULL, NULL, NULL, NULL,
            'its link was used'
        FROM known
        WHERE consumed_at IS NOT NULL
        UNION ALL
        SELECT 2, to_timestamp(cancelled_at), 'ended', NULL, NULL, NULL, NULL, NULL,
            CASE WHEN has_link THEN 'its link was cancelled' ELSE 'it was cancelled' END
        FROM known
        WHERE cancelled_at IS NOT NULL
        UNION ALL
        SELECT 2, to_timestamp(expires_at), 'ended', NULL, NULL, NULL, NULL, NULL,
            'its link is no longer valid'
        FROM known
        WHERE has_link AND consumed_at IS NULL AND cancelled_at IS NULL
            AND to_timestamp(expires_at) <= epoch
        UNION ALL
        SELECT
            3, greatest(due_at, epoch), 'waiting', attempts, NULL, NULL, NULL, NULL,
            CASE
                WHEN deferrals > 0 THEN
                    'its subject is not eligible for it, or collectors cannot sign it'
                WHEN due_at > epoch THEN 'it is due then'
                ELSE 'it is due'
            END
        FROM mailroom.queue
        WHERE token = traced
        UNION ALL
        SELECT 3, claimed_at, 'claimed', item.attempt, NULL, collector_id, NULL, NULL,
            'a collector has it'
        FROM mailroom.leases
        CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(tokens), pg_catalog.unnest(attempts))
            AS item (token, attempt)
        WHERE traced = ANY (tokens) AND item.token = traced
    )
    SELECT
        traced, told.happened_at, told.event, told.attempt, actions.name, collectors.name,
            told.provider,
        told.message_id, told.detail
    FROM told
    LEFT JOIN mailroom.actions ON number = told.action
    LEFT JOIN mailroom.collectors USING (collector_id)
    ORDER BY date_trunc('second', told.happened_at), rank, told.happened_at, told.attempt,
        told.event;
END;
$$;

COMMENT ON FUNCTION mailroom.trace_token(bigint, timestamptz) IS
    'What is known of a token, in order of time.';

-- Tokens of an address are looked for by their receipts, which outlive them, and in all tokens
-- there are: no index has their addresses, which every registration would have to write.
CREATE FUNCTION mailroom.trace(tokens bigint[] DEFAULT NULL, address text DEFAULT NULL)
    RETURNS TABLE (
    token bigint, happened_at timestamptz, event text, attempt integer, action text, collector text,
    provider text, message_id text, detail text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    normal text := mailroom.normal_address(trace.address);
    traced bigint[] := coalesce(trace.tokens, '{}');
BEGIN
    IF normal IS NOT NULL THEN
        traced := traced || ARRAY(
            SELECT token FROM mailroom.receipts
            WHERE address_hash = mailroom.address_hash(
                trace.address, (SELECT address_key FROM mailroom.installation)
            )
            UNION
            SELECT id FROM mailroom.issued_tokens WHERE mailroom.normal_address(recipient_email) =
                normal
        );
    END IF;

    RETURN QUERY
    SELECT told.*
    FROM (SELECT DISTINCT asked FROM pg_catalog.unnest(traced) AS asked ORDER BY asked) AS each
    CROSS JOIN LATERAL mailroom.trace_token(each.asked, mailroom.clock()) AS told;
END;
$$;

COMMENT ON FUNCTION mailroom.trace(bigint[], text) IS
    'For support, a right of its own: the story of tokens, or of all tokens for an address, each '
    'in order of time: enqueued; attempts, as in delivery_log; accepted, by which provider, with '
    'its id and answer; suppressed; redeemed; ended; waiting or claimed. Also of tokens that were '
    'deleted, as far as log and receipts reach. By address it reads all tokens.';

-- How much waits and for how long, for operators.

-- One that was started on the same host after another one was seen last has replaced it. Who ended
-- without a word an hour ago is forgotten, unless nobody has come after it.
CREATE FUNCTION mailroom.present_collectors(epoch timestamptz) RETURNS TABLE (
    collector_id bigint, name text, started_at timestamptz, seen_at timestamptz, state text,
        state_since timestamptz, state_reason text,
    is_alive boolean, token_format text, installation text
)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    -- Read once: the table keeps every process that ever collected.
    WITH known AS (
        SELECT
            one.collector_id, one.name, one.started_at, one.seen_at, one.state, one.state_since,
            one.state_reason,
            mailroom.is_seen(one.seen_at, present_collectors.epoch) AS was_seen,
            mailroom.rests(one.state, one.seen_at, present_collectors.epoch) AS rests,
            max(one.started_at) OVER (PARTITION BY split_part(one.name, ' process ', 1))
                > one.seen_at AS is_replaced,
            max(one.seen_at) OVER () > one.seen_at AS is_followed,
            one.token_format, one.installation
        FROM mailroom.collectors AS one
    )
    SELECT known.collector_id, known.name, known.started_at, known.seen_at, known.state,
        known.state_since, known.state_reason,
        known.was_seen OR known.rests AND NOT known.is_replaced,
        known.token_format, known.installation
    FROM known
    WHERE known.state IS DISTINCT FROM 'ended'
        AND (
            known.was_seen
            OR NOT known.is_replaced
            AND (
                known.seen_at > present_collectors.epoch - interval '1 hour'
                OR known.rests
                OR NOT known.is_followed
            )
        );
END;

COMMENT ON FUNCTION mailroom.present_collectors(timestamptz) IS
    'Collectors that gave a sign of life within 90 seconds or said within 25 hours that they rest, '
    'and those that are missed: they neither ended in order nor were replaced.';

CREATE FUNCTION mailroom.status(
    OUT first_due bigint,
    OUT second_due bigint,
    OUT later bigint,
    OUT oldest_due_ms bigint,
    OUT leases bigint,
    OUT leased_tokens bigint,
    OUT lapsed_leases bigint,
    OUT oldest_lease_ms bigint,
    OUT deferred bigint,
    OUT dead_letters bigint,
    OUT dead_last_hour bigint,
    OUT suppressed bigint,
    OUT expired bigint,
    OUT expired_last_hour bigint,
    OUT log_since bigint,
    OUT collectors_alive bigint,
    OUT collectors_lost bigint,
    OUT unavailable_ms bigint,
    OUT collectors json,
    OUT in_doubt bigint,
    OUT in_doubt_last_hour bigint,
    OUT dead_in_doubt bigint,
    OUT in_doubt_oldest_ms bigint,
    OUT dead_in_doubt_last_hour bigint,
    OUT unsignable bigint,
    OUT token_formats bigint,
    OUT token_format text,
    OUT installation text,
    OUT misnamed bigint,
    OUT is_of_another_cluster boolean,
    OUT budget json,
    OUT unsigned json,
    OUT handed_over bigint,
    OUT handed_over_oldest_ms bigint,
    OUT handed_over_overdue bigint,
    OUT handed_over_overdue_last_hour bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom.clock();
    -- A sender drops what has expired, and its verdict is on its way for a while.
    overdue_at bigint := floor(extract(epoch FROM epoch))::bigint - 300;
    figures record;
BEGIN
    -- One statement, one snapshot: a token that moves between the tables is counted once.
    SELECT
        waiting.first_due AS first_due,
        waiting.second_due AS second_due,
        waiting.later AS later,
        floor(1000::numeric * extract(epoch FROM epoch - least(waiting.oldest,
            claimed.oldest)))::bigint AS oldest_due_ms,
        claimed.leases AS leases,
        claimed.leased_tokens AS leased_tokens,
        claimed.lapsed_leases AS lapsed_leases,
        claimed.oldest_lease_ms AS oldest_lease_ms,
        waiting.deferred AS deferred,
        given_up.total AS dead_letters,
        given_up.last_hour AS dead_last_hour,
        given_up.suppressed AS suppressed,
        (SELECT count(*) FROM mailroom.delivery_log WHERE outcome = 'expired') AS expired,
        (
            SELECT count(*) FROM mailroom.delivery_log
            WHERE outcome = 'expired' AND happened_at > epoch - interval '1 hour'
        ) AS expired_last_hour,
        floor(extract(epoch FROM own.log_complete_since))::bigint AS log_since,
        known.alive AS collectors_alive,
        known.lost AS collectors_lost,
        known.unavailable_ms AS unavailable_ms,
        known.list AS collectors,
        waiting.in_doubt + claimed.in_doubt AS in_doubt,
        (
            SELECT count(*) FROM mailroom.delivery_log
            WHERE outcome = 'in_doubt' AND happened_at > epoch - interval '1 hour'
        ) AS in_doubt_last_hour,
        maybe_delivered.total AS dead_in_doubt,
        floor(1000::numeric * extract(epoch FROM epoch - least(waiting.in_doubt_since,
            claimed.in_doubt_since)))::bigint AS in_doubt_oldest_ms,
        maybe_delivered.last_hour AS dead_in_doubt_last_hour,
        unsigned.total AS unsignable,
        known.formats AS token_formats,
        own.token_format AS token_format,
        own.name AS installation,
        known.misnamed AS misnamed,
        coalesce(own.system_identifier <> mailroom.cluster_identifier(), false)
            AS is_of_another_cluster,
        unsigned.list AS unsigned,
        away.total AS handed_over,
        away.oldest_ms AS handed_over_oldest_ms,
        away.overdue AS handed_over_overdue,
        away.overdue_last_hour AS handed_over_overdue_last_hour
    INTO figures
    FROM mailroom.installation AS own
    CROSS JOIN (
        SELECT
            count(*) FILTER (WHERE deferrals = 0 AND due_at <= epoch AND priority = 0::smallint)
                AS first_due,
            count(*) FILTER (WHERE deferrals = 0 AND due_at <= epoch AND priority <> 0::smallint)
                AS second_due,
            count(*) FILTER (WHERE deferrals = 0 AND due_at > epoch) AS later,
            count(*) FILTER (WHERE deferrals > 0) AS deferred,
            count(*) FILTER (WHERE doubts > 0) AS in_doubt,
            min(coalesce(waits_since, CASE WHEN due_at <= epoch THEN due_at END))
                FILTER (WHERE doubts > 0) AS in_doubt_since,
            -- What the sender gave back waits on while its pause lasts; what is in doubt has a
            -- figure of its own.
            min(
                CASE
                    WHEN doubts = 0
                    THEN coalesce(waits_since, CASE WHEN due_at <= epoch THEN due_at END)
                    WHEN due_at <= epoch THEN due_at
                END
            ) FILTER (WHERE deferrals = 0) AS oldest
        FROM mailroom.queue
    ) AS waiting
    CROSS JOIN (
        SELECT
            count(*) AS leases,
            coalesce(sum(pg_catalog.cardinality(tokens)), 0::bigint) AS leased_tokens,
            count(*) FILTER (WHERE ends_at <= epoch) AS lapsed_leases,
            floor(1000::numeric * extract(epoch FROM epoch - min(claimed_at)))::bigint
                AS oldest_lease_ms,
            -- What is tried again waits on meanwhile.
            min((
                SELECT min(item.waits_since)
                FROM ROWS FROM (
                    pg_catalog.unnest(attempts), pg_catalog.unnest(waits_since),
                        pg_catalog.unnest(doubts)
                ) AS item (attempt, waits_since, doubts)
                WHERE item.attempt > 1 AND coalesce(item.doubts, 0::smallint) = 0
            )) AS oldest,
            min((
                SELECT min(item.waits_since)
                FROM ROWS FROM (pg_catalog.unnest(waits_since), pg_catalog.unnest(doubts))
                    AS item (waits_since, doubts)
                WHERE item.doubts > 0
            )) AS in_doubt_since,
            coalesce(sum((SELECT count(*) FROM pg_catalog.unnest(doubts) AS doubt
                WHERE doubt > 0)), 0)
                ::bigint AS in_doubt
        FROM mailroom.leases
    ) AS claimed
    CROSS JOIN (
        SELECT
            count(*) FILTER (WHERE NOT is_suppressed) AS total,
            count(*) FILTER (WHERE NOT is_suppressed AND died_at > epoch - interval '1 hour')
                AS last_hour,
            count(*) FILTER (WHERE is_suppressed) AS suppressed
        FROM mailroom.dead_letters
    ) AS given_up
    CROSS JOIN (
        SELECT count(*) AS total, count(*) FILTER (WHERE died_at > epoch - interval '1 hour')
            AS last_hour
        FROM mailroom.dead_letters
        WHERE is_in_doubt
    ) AS maybe_delivered
    CROSS JOIN (
        SELECT
            count(*) AS total,
            floor(1000::numeric * extract(epoch FROM epoch - min(handed_over_at)))::bigint
                AS oldest_ms,
            count(*) FILTER (WHERE expires_at <= overdue_at) AS overdue,
            count(*) FILTER (WHERE expires_at <= overdue_at AND expires_at > overdue_at - 3600)
                AS overdue_last_hour
        FROM mailroom.handed_over
    ) AS away
    CROSS JOIN LATERAL (
        SELECT
            count(*) FILTER (WHERE is_alive) AS alive,
            count(*) FILTER (WHERE NOT is_alive) AS lost,
            floor(1000::numeric * extract(epoch FROM epoch - min(state_since) FILTER (
                WHERE is_alive AND state IN ('unanswered', 'failing', 'open', 'half_open')
            )))::bigint AS unavailable_ms,
            coalesce(bool_and(present.token_format = 'v1') FILTER (WHERE is_alive), false)
                AS sign_v1_only,
            count(DISTINCT present.token_format) FILTER (WHERE is_alive) AS formats,
            count(*) FILTER (WHERE is_alive AND own.name <> coalesce(present.installation, ''))
                AS misnamed,
            coalesce(
                json_agg(
                    json_build_object(
                        'name', present.name,
                        'is_alive', is_alive,
                        'token_format', present.token_format,
                        'seen_ms', floor(1000::numeric * extract(epoch
                        FROM epoch - seen_at))::bigint,
                        'state', state,
                        'since', to_char(state_since AT TIME ZONE 'UTC',
                        'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                        'state_ms', floor(1000::numeric * extract(epoch
                        FROM epoch - state_since))::bigint,
                        'reason', state_reason
                    )
                    ORDER BY started_at, collector_id
                ),
                '[]'::json
            ) AS list
        FROM mailroom.present_collectors(epoch) AS present
    ) AS known
    -- What no collector that is alive signs: v1 knows two actions and binds no links.
    CROSS JOIN LATERAL (
        SELECT
            coalesce(sum(alike.tokens), 0)::bigint AS total,
            coalesce(
                json_agg(
                    json_build_object(
                        'reason', alike.reason,
                        'action', alike.name,
                        'tokens', alike.tokens
                    )
                    ORDER BY alike.reason, alike.number
                ),
                '[]'::json
            ) AS list
        FROM (
            SELECT
                CASE WHEN actions.number > 2 THEN 'action' ELSE 'binding' END AS reason,
                actions.number, actions.name, count(*) AS tokens
            FROM mailroom.queue AS put_off
            -- One by one: a join would read all tokens.
            CROSS JOIN LATERAL (
                SELECT looked_up.action, looked_up.binding
                FROM mailroom.issued_tokens AS looked_up
                WHERE looked_up.id = put_off.token
                OFFSET 0
            ) AS known_token
            JOIN mailroom.actions ON actions.number = known_token.action
            WHERE known.sign_v1_only
                AND put_off.deferrals > 0
                AND (known_token.action > 2 OR known_token.binding IS NOT NULL)
            GROUP BY actions.number, actions.name
        ) AS alike
    ) AS unsigned;

    -- By name: two columns that change places are no error of PostgreSQL.
    first_due := figures.first_due;
    second_due := figures.second_due;
    later := figures.later;
    oldest_due_ms := figures.oldest_due_ms;
    leases := figures.leases;
    leased_tokens := figures.leased_tokens;
    lapsed_leases := figures.lapsed_leases;
    oldest_lease_ms := figures.oldest_lease_ms;
    deferred := figures.deferred;
    dead_letters := figures.dead_letters;
    dead_last_hour := figures.dead_last_hour;
    suppressed := figures.suppressed;
    expired := figures.expired;
    expired_last_hour := figures.expired_last_hour;
    log_since := figures.log_since;
    collectors_alive := figures.collectors_alive;
    collectors_lost := figures.collectors_lost;
    unavailable_ms := figures.unavailable_ms;
    collectors := figures.collectors;
    in_doubt := figures.in_doubt;
    in_doubt_last_hour := figures.in_doubt_last_hour;
    dead_in_doubt := figures.dead_in_doubt;
    in_doubt_oldest_ms := figures.in_doubt_oldest_ms;
    dead_in_doubt_last_hour := figures.dead_in_doubt_last_hour;
    unsignable := figures.unsignable;
    token_formats := figures.token_formats;
    token_format := figures.token_format;
    installation := figures.installation;
    misnamed := figures.misnamed;
    is_of_another_cluster := figures.is_of_another_cluster;
    unsigned := figures.unsigned;
    handed_over := figures.handed_over;
    handed_over_oldest_ms := figures.handed_over_oldest_ms;
    handed_over_overdue := figures.handed_over_overdue;
    handed_over_overdue_last_hour := figures.handed_over_overdue_last_hour;

    SELECT json_build_object(
        'allowed', spent.allowed,
        'used', spent.used,
        'left', spent.available,
        'used_percent', 100 * spent.used / spent.allowed,
        'ends_at', to_char(spent.ends_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
        'lasts_until', to_char(spent.lasts_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
    )
    INTO budget
    FROM mailroom.measure_budget() AS spent
    WHERE spent.allowed > 0;
END;
$$;

COMMENT ON FUNCTION mailroom.status() IS
    'For operators: how many tokens are due, by priority, how many will be later, since how many '
    'milliseconds the oldest is due; batches that are claimed, their tokens, those whose lease has '
    'lapsed, since how many milliseconds the oldest is claimed; deferred tokens; dead letters, in '
    'all and of the last hour, those whose address is suppressed apart; tokens that expired '
    'unsent, in all of the log and within the last hour; and since when, in seconds of the Unix '
    'epoch, the log is complete; collectors that are alive and that are missed, since how many '
    'milliseconds a sender has been unavailable, and each collector with the state of its sender. '
    'A token that the sender gave back because it was unavailable is due since it was due first. '
    'Tokens that wait or are claimed after an attempt in doubt, attempts that ended in doubt '
    'within the last hour, and dead letters that may have been delivered; since how many '
    'milliseconds the first of those tokens was due, and those dead letters of the last hour. '
    'Deferred tokens that no collector can sign; how many formats the collectors sign, and which '
    'of them is the default; the installation''s name, how many collectors have another one or '
    'none, and whether the queue is bound to another cluster. Of a budget, as in measure_budget(), '
    'what is used and left, when its month ends, and until when it lasts. The tokens that no '
    'collector can sign by their reason: `action`, which v1 does not sign, or `binding`. Tokens '
    'that were handed over to a broker and have no verdict yet, since how many milliseconds the '
    'first of them; of those such as expired five minutes ago or earlier, and within an hour of '
    'that.';

-- What collectors with metrics read of the database.

-- For dashboards, which ask every half a minute. Actions are looked up one by one, since a join
-- would read all tokens, and for the first ten thousand tokens of each place only: a long queue is
-- counted, and not split. Each place is read once for the counts, by nothing but an aggregate.
CREATE FUNCTION mailroom.measure() RETURNS TABLE (
    state text, action text, tokens bigint, oldest double precision
)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off
BEGIN ATOMIC
    WITH
    now AS MATERIALIZED (
        SELECT mailroom.clock() AS epoch
    ),
    queued AS NOT MATERIALIZED (
        SELECT
            queue.token,
            CASE
                WHEN queue.doubts > 0 THEN 'in_doubt'
                WHEN queue.deferrals > 0 THEN 'deferred'
                WHEN queue.due_at <= (SELECT epoch FROM now) THEN 'due'
                ELSE 'later'
            END AS state,
            CASE
                WHEN queue.deferrals > 0 THEN queue.put_off_at
                WHEN queue.due_at > (SELECT epoch FROM now)
                THEN coalesce(queue.waits_since, queue.put_off_at)
                ELSE coalesce(queue.waits_since, queue.due_at)
            END AS since
        FROM mailroom.queue
    ),
    given_up AS NOT MATERIALIZED (
        SELECT
            dead_letters.token,
            CASE WHEN dead_letters.is_suppressed THEN 'suppressed' ELSE 'dead' END AS state,
            dead_letters.died_at AS since
        FROM mailroom.dead_letters
    ),
    claimed AS NOT MATERIALIZED (
        SELECT leased.token, 'claimed' AS state, leases.claimed_at AS since
        FROM mailroom.leases
        CROSS JOIN LATERAL pg_catalog.unnest(leases.tokens) AS leased (token)
    ),
    -- As status() has handed_over_overdue_last_hour.
    overdue AS MATERIALIZED (
        SELECT floor(extract(epoch FROM now.epoch))::bigint - 300::bigint AS before FROM now
    ),
    away AS NOT MATERIALIZED (
        SELECT
            handed_over.token,
            CASE
                WHEN handed_over.expires_at <= (SELECT before FROM overdue)
                    AND handed_over.expires_at > (SELECT before FROM overdue) - 3600::bigint
                THEN 'overdue'
                ELSE 'handed_over'
            END AS state,
            handed_over.handed_over_at AS since
        FROM mailroom.handed_over
    ),
    counted AS (
        SELECT queued.state, count(*) AS tokens, min(queued.since) AS since
        FROM queued GROUP BY queued.state
        UNION ALL
        SELECT given_up.state, count(*), min(given_up.since) FROM given_up GROUP BY given_up.state
        UNION ALL
        SELECT claimed.state, count(*), min(claimed.since) FROM claimed GROUP BY claimed.state
        UNION ALL
        SELECT away.state, count(*), min(away.since) FROM away GROUP BY away.state
    ),
    split AS (
        SELECT place.state, actions.name AS action, count(*) AS tokens, min(place.since) AS since
        FROM (
            SELECT
                sampled.state, sampled.since,
                (
                    SELECT issued_tokens.action FROM mailroom.issued_tokens
                    WHERE issued_tokens.id = sampled.token
                ) AS action
            FROM (
                (SELECT token, state, since FROM queued LIMIT 10000)
                UNION ALL
                (SELECT token, state, since FROM given_up LIMIT 10000)
                UNION ALL
                (SELECT token, state, since FROM claimed LIMIT 10000)
                UNION ALL
                (SELECT token, state, since FROM away LIMIT 10000)
            ) AS sampled
            -- Looked up once for each.
            OFFSET 0
        ) AS place
        JOIN mailroom.actions ON actions.number = place.action
        GROUP BY place.state, actions.name
    ),
    told AS (
        SELECT split.state, split.action, split.tokens, split.since FROM split
        UNION ALL
        -- Of the rest the oldest is no younger than it is said to be.
        SELECT counted.state, '(others)', counted.tokens - coalesce(known.tokens, 0),
            counted.since
        FROM counted
        LEFT JOIN (
            SELECT split.state, sum(split.tokens)::bigint AS tokens FROM split GROUP BY split.state
        ) AS known USING (state)
        WHERE counted.tokens > coalesce(known.tokens, 0)
    )
    SELECT
        told.state,
        told.action,
        told.tokens,
        coalesce(
            greatest(extract(epoch FROM (SELECT epoch FROM now) - told.since), 0::numeric),
            0::numeric
        )::double precision
    FROM told;
END;

COMMENT ON FUNCTION mailroom.measure() IS
    'For collectors with metrics: how many tokens are due, to be sent later, deferred, in doubt, '
    'claimed, handed over, overdue, dead or suppressed, by the name of their action, and for how '
    'many seconds the oldest of them has been. Overdue: handed over, and expired without a verdict '
    'five minutes ago and no longer than an hour before that. Of more than ten thousand of a '
    'place, the action of the others is ''(others)'', and their oldest is that of the state.';

-- As spend() reckons.
CREATE FUNCTION mailroom.measure_rate(per_day bigint, OUT used bigint, OUT available bigint)
LANGUAGE plpgsql STABLE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    second constant bigint := 1000000;
    day constant bigint := 86400 * second;
    moment bigint := floor(extract(epoch FROM mailroom.clock()) * second)::bigint;
    next_at bigint;
BEGIN
    SELECT greatest(last_value, moment - second) INTO next_at FROM mailroom.rate_spent_until;
    available := CASE WHEN next_at > moment THEN 0
        ELSE (moment - next_at) * per_day / day + 1 END;
    used := per_day / 86400 + 1 - available;
END;
$$;

COMMENT ON FUNCTION mailroom.measure_rate(bigint) IS
    'For collectors with metrics: how many tokens of a rate, which is tokens a day, may be claimed '
    'at once, and how many of those that it ever allows at once are used.';

-- Where a month goes on as it has begun, what is left lasts for as long as it took to use as much.
CREATE FUNCTION mailroom.measure_budget(OUT allowed bigint, OUT used bigint, OUT available bigint,
    OUT ends_at timestamptz, OUT lasts_until timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    moment timestamptz := mailroom.clock();
    known record;
BEGIN
    known := mailroom.read_budget(moment);
    SELECT last_value INTO allowed FROM mailroom.budget_in_use;
    used := known.used;
    available := greatest(allowed - used, 0);
    ends_at := known.ends_at;
    IF used > 0 AND moment > known.begins_at THEN
        lasts_until := moment + least(
            (moment - known.begins_at) * (available::double precision / used::double precision),
            interval '1 year'
        );
        IF lasts_until >= ends_at THEN
            lasts_until := NULL;
        END IF;
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.measure_budget() IS
    'For collectors with metrics: the budget of the last claim, in tokens a calendar month (UTC), '
    '0 without; what was used of it and is left; when the month ends, and when nothing will be '
    'left before that if mails go on as in this month, or null.';

-- The runs of collectors, for operators.

CREATE FUNCTION mailroom.list_runs(most integer DEFAULT 50) RETURNS TABLE (
    name text, version text, started_at timestamptz, seen_at timestamptz, fate text, reason text,
    counts json, settings json
)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off
BEGIN ATOMIC
    SELECT
        run.name,
        run.version,
        run.started_at,
        CASE WHEN run.state = 'ended' THEN run.state_since ELSE run.seen_at END,
        CASE
            WHEN run.state = 'ended' THEN 'ended'
            WHEN mailroom.is_seen(run.seen_at, mailroom.clock()) THEN 'alive'
            WHEN mailroom.rests(run.state, run.seen_at, mailroom.clock()) THEN 'resting'
            ELSE 'killed'
        END,
        run.state_reason,
        run.counts,
        run.settings
    FROM mailroom.collectors AS run
    ORDER BY run.started_at DESC, run.collector_id
    LIMIT most;
END;

COMMENT ON FUNCTION mailroom.list_runs(integer) IS
    'For operators: the newest runs of collectors, when each ended or gave the last sign of life, '
    'and whether it is alive, rests, ended in order, or was killed: it has given no sign of life '
    'for 90 seconds, or for 25 hours of a rest.';

-- Tables that do not grow for ever.

CREATE FUNCTION mailroom.begin_step(before timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Not waited for: whoever has it prunes already.
    LOCK TABLE mailroom.prune_lock IN EXCLUSIVE MODE NOWAIT;

    IF (before <= mailroom.clock() - interval '1 day') IS NOT TRUE THEN
        RAISE EXCEPTION 'what is younger than a day is not pruned'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.begin_step(timestamptz) IS
    'Begins a transaction that prunes: fails unless the time is at least a day ago, and if another '
    'one prunes (SQLSTATE 55P03).';

-- Where the log is read it is read in the order of its blocks, so that every block is read once,
-- however many rows are dead by then. New rows fill the blocks of pruned ones, so any block can
-- hold an old row.
CREATE FUNCTION mailroom.prune_attempts(
    before timestamptz, first_block bigint, block_count integer, OUT pruned bigint,
        OUT all_blocks bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
-- A plan for empty tables would read whole ones in each step.
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    PERFORM mailroom.begin_step(before);

    all_blocks := greatest(
        pg_relation_size('mailroom.delivery_log'::regclass),
            pg_relation_size('mailroom.receipts'::regclass)
    ) / current_setting('block_size'::text)::bigint;

    DELETE FROM mailroom.receipts
    WHERE accepted_at < before
        AND ctid >= pg_catalog.format('(%s,0)'::text, first_block)::tid
        AND ctid < pg_catalog.format('(%s,0)'::text, first_block + block_count::bigint)::tid;

    WITH gone AS (
        DELETE FROM mailroom.delivery_log
        WHERE happened_at < before
            AND ctid >= pg_catalog.format('(%s,0)'::text, first_block)::tid
            AND ctid < pg_catalog.format('(%s,0)'::text, first_block + block_count::bigint)::tid
        RETURNING tokens
    )
    SELECT coalesce(sum(pg_catalog.cardinality(tokens)), 0::bigint) INTO pruned FROM gone;

    -- With the last blocks, when what the runs that ended so long ago have logged is gone. A run
    -- may log something after its last sign of life, but not for an hour. The one seen last is
    -- kept: it may be missed.
    IF first_block + block_count::bigint >= all_blocks THEN
        DELETE FROM mailroom.collectors
        WHERE collector_id = ANY (ARRAY(
            SELECT gone.collector_id
            FROM mailroom.collectors AS gone
            WHERE gone.seen_at < before - interval '1 hour'
                AND gone.seen_at < (
                    SELECT max(newest.seen_at) FROM mailroom.collectors AS newest
                )
                AND NOT EXISTS (
                    SELECT FROM mailroom.leases WHERE leases.collector_id = gone.collector_id
                )
            FOR UPDATE SKIP LOCKED
        ));
    END IF;

    IF pruned > 0::bigint THEN
        UPDATE mailroom.installation SET log_complete_since = before
            WHERE log_complete_since < before;
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.prune_attempts(timestamptz, bigint, integer) IS
    'Deletes delivery attempts and receipts from before a time, at least a day ago, in some blocks '
    'of the log and of the receipts; with the last of them also runs of collectors that ended an '
    'hour before; answers how many attempts, and how many blocks the larger of the two has.';

CREATE FUNCTION mailroom.prune_dead_letters(
    before timestamptz, most integer, OUT pruned bigint, OUT has_more boolean
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    unheard bigint;
BEGIN
    PERFORM mailroom.begin_step(before);

    DELETE FROM mailroom.dead_letters
    WHERE token = ANY (ARRAY(
        SELECT given_up.token
        FROM mailroom.dead_letters AS given_up
        WHERE given_up.died_at < before
            AND NOT EXISTS (
                SELECT FROM mailroom.issued_tokens AS tokens
                WHERE id = given_up.token AND consumed_at IS NULL AND cancelled_at IS NULL
                    AND expires_at > floor(extract(epoch FROM mailroom.clock()))::bigint
            )
        LIMIT most
        FOR UPDATE SKIP LOCKED
    ));

    GET DIAGNOSTICS pruned = ROW_COUNT;

    -- They are no dead letters, and not counted as such. A sweep has found before that they have
    -- expired.
    DELETE FROM mailroom.handed_over
    WHERE token = ANY (ARRAY(
        SELECT token FROM mailroom.handed_over
        WHERE is_expired AND expires_at < floor(extract(epoch FROM before))::bigint
        ORDER BY expires_at
        LIMIT most
        FOR UPDATE SKIP LOCKED
    ));

    GET DIAGNOSTICS unheard = ROW_COUNT;
    has_more := greatest(pruned, unheard) >= most;
END;
$$;

COMMENT ON FUNCTION mailroom.prune_dead_letters(timestamptz, integer) IS
    'Deletes dead letters that were given up before a time, at least a day ago, and cannot be sent '
    'any more, and answers how many; and what was handed over, had no verdict and expired before. '
    'Of each no more than most: has_more says whether there may be more.';

CREATE SEQUENCE mailroom.longest_limit MINVALUE 0 START 0;

COMMENT ON SEQUENCE mailroom.longest_limit IS
    'Not counted up: the longest time, in seconds, within which request() or renew_link() was to '
    'count tokens.';

-- By id, which is nearly the order in which they were made: where none of the tokens of a step is
-- so old, the steps that follow find none either. What still waits is left for a claim, and what
-- can be put back for an operator.
CREATE FUNCTION mailroom.prune_tokens(before timestamptz, after_id bigint, most integer,
    OUT pruned bigint, OUT through_id bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
-- A bitmap has all rows that are over, of which a step deletes some.
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    ended bigint := floor(extract(epoch FROM before))::bigint;
    -- A variable: an index is not searched for what is computed for each row.
    epoch bigint := floor(extract(epoch FROM mailroom.clock()))::bigint;
    -- By these request() knows how many a subject has had.
    uncounted bigint := epoch - (SELECT nullif(last_value, 0) FROM mailroom.longest_limit);
    requestable smallint[] := ARRAY(
        SELECT number FROM mailroom.actions WHERE eligibility IS NOT NULL
    );
    seen integer;
    earliest bigint;
    forgotten integer;
    most_forgotten integer := 0;
BEGIN
    PERFORM mailroom.begin_step(before);

    SELECT count(*)::integer, min(created_at), max(id) INTO seen, earliest, through_id
    FROM (SELECT id, created_at FROM mailroom.issued_tokens AS tokens WHERE id > after_id
        ORDER BY id LIMIT most) AS next;

    -- One statement, one snapshot: what moves from the queue to a lease is in one of them.
    WITH gone AS (
        DELETE FROM mailroom.issued_tokens AS tokens
        WHERE id = ANY (ARRAY(
            SELECT id
            FROM mailroom.issued_tokens AS tokens
            WHERE id > after_id
                AND id <= through_id
                AND expires_at < ended
                AND ((created_at > uncounted) IS NOT TRUE OR action <> ALL (requestable))
                AND NOT EXISTS (SELECT FROM mailroom.queue WHERE token = tokens.id)
                AND NOT EXISTS (SELECT FROM mailroom.dead_letters WHERE token = tokens.id)
                AND NOT EXISTS (SELECT FROM mailroom.handed_over WHERE token = tokens.id)
                AND id NOT IN (SELECT pg_catalog.unnest(leases.tokens) FROM mailroom.leases)
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING id
    ),
    emptied AS (
        DELETE FROM mailroom.payloads WHERE token = ANY (ARRAY(SELECT id FROM gone))
    )
    SELECT count(*) INTO pruned FROM gone;

    -- In order, so that those go first whose time was over first.
    DELETE FROM mailroom.idempotency_keys
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM mailroom.idempotency_keys
        WHERE expires_at < epoch
        ORDER BY expires_at
        LIMIT most
        FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    most_forgotten := greatest(most_forgotten, forgotten);

    DELETE FROM mailroom.browser_codes
    WHERE binding = ANY (ARRAY(
        SELECT binding FROM mailroom.browser_codes
        WHERE expires_at < epoch
        ORDER BY expires_at
        LIMIT most
        FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    most_forgotten := greatest(most_forgotten, forgotten);

    -- Long enough that forgetting them gives nobody more than some hundred tries a year.
    DELETE FROM mailroom.code_failures
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM mailroom.code_failures
        WHERE rests_until < epoch - 180 * 86400
        ORDER BY rests_until
        LIMIT most
        FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    most_forgotten := greatest(most_forgotten, forgotten);

    -- After the last token steps go on for all else, of which there can be more.
    IF seen < most OR earliest >= ended THEN
        through_id := CASE WHEN most_forgotten >= most THEN 9223372036854775807 END;
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.prune_tokens(timestamptz, bigint, integer) IS
    'Deletes tokens that expired before a time, at least a day ago, among the next ones after an '
    'id, unless they are queued, leased, handed over or a dead letter, or request() has to count '
    'them; and idempotency keys and browsers'' codes whose time is over. Answers how many tokens, '
    'and the id to go on after, null at the end.';

-- All that is kept of a subject: exported or forgotten.

CREATE FUNCTION mailroom.tokens_of(subject_id text, address text) RETURNS bigint[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN ARRAY(
        SELECT id FROM mailroom.issued_tokens AS tokens
        WHERE subject_id = tokens_of.subject_id
        UNION ALL
        SELECT id FROM mailroom.issued_tokens AS tokens
        WHERE tokens_of.address IS NOT NULL
            AND subject_id IS NULL
            AND mailroom.normal_address(recipient_email) =
                mailroom.normal_address(tokens_of.address)
    );
END;
$$;

COMMENT ON FUNCTION mailroom.tokens_of(text, text) IS
    'The tokens of a subject and, if an address is given, those for it that have no subject.';

-- Receipts outlive tokens: those of the subject's addresses, unless their token is somebody else's.
CREATE FUNCTION mailroom.receipts_of(tokens bigint[], address text) RETURNS bigint[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    key bytea := (SELECT address_key FROM mailroom.installation);
    hashes bytea[] := ARRAY(
        SELECT mailroom.address_hash(known.recipient_email, key)
        FROM mailroom.issued_tokens AS known
        WHERE id = ANY (receipts_of.tokens) AND recipient_email IS NOT NULL
        UNION
        SELECT mailroom.address_hash(receipts_of.address, key) WHERE receipts_of.address IS NOT NULL
    );
BEGIN
    RETURN ARRAY(
        SELECT id FROM mailroom.receipts WHERE token = ANY (receipts_of.tokens)
        UNION
        SELECT receipts.id
        FROM mailroom.receipts
        WHERE address_hash = ANY (hashes)
            AND NOT EXISTS (SELECT FROM mailroom.issued_tokens AS known
                WHERE known.id = receipts.token)
    );
END;
$$;

COMMENT ON FUNCTION mailroom.receipts_of(bigint[], text) IS
    'Ids of the receipts of tokens and, of tokens that were pruned, of the same addresses or of '
    'another one.';

-- A claim that has a token already hands it over; nothing that comes back of it is kept or sent
-- again, because its row is gone.
--
-- Locks, after the subject's row, of which it locks an account's by itself: its dead letters, its
-- tokens, then what hangs on them. No batch: a collector would wait for the application, and its
-- lease would end.
CREATE FUNCTION mailroom.forget(subject_id text, address text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    erased bigint[];
    receipt_ids bigint[];
    pruned bigint[];
    nobodys bigint[];
    bindings bytea[];
    addresses text[];
BEGIN
    IF coalesce(forget.subject_id, mailroom.normal_address(forget.address)) IS NULL THEN
        RAISE EXCEPTION 'mailroom.forget(): there is neither a subject_id nor an address'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    -- In the others an old snapshot can lack what is to be erased.
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'mailroom.forget() does not work in % transactions',
            current_setting('transaction_isolation')
            USING ERRCODE = 'invalid_transaction_state',
                HINT = 'Call it in a transaction with the isolation level READ COMMITTED.';
    END IF;

    -- Whoever deletes an account locks it before its tokens.
    IF to_regclass('mailroom.adopted_accounts') IS NOT NULL THEN
        PERFORM FROM mailroom.adopted_accounts AS accounts
        WHERE id = CASE WHEN forget.subject_id ~ '^(0|[1-9][0-9]{0,17})$'
            THEN forget.subject_id::bigint END
        FOR KEY SHARE;
    END IF;

    -- What somebody is just putting back, using or renewing is waited for, too. What that has made,
    -- a new token or a notice, is seen by a statement that begins later: it can come before those
    -- that are locked, so that all are let go and locked anew.
    LOOP
        BEGIN
            DELETE FROM mailroom.dead_letters
            WHERE token = ANY (mailroom.tokens_of(forget.subject_id, forget.address));

            erased := ARRAY(
                SELECT id FROM mailroom.issued_tokens AS tokens
                WHERE id = ANY (mailroom.tokens_of(forget.subject_id, forget.address))
                ORDER BY id
                FOR UPDATE
            );
            EXIT WHEN mailroom.tokens_of(forget.subject_id, forget.address) <@ erased
                AND NOT EXISTS (SELECT FROM mailroom.dead_letters WHERE token = ANY (erased));
            RAISE SQLSTATE 'MLNEW';
        EXCEPTION WHEN SQLSTATE 'MLNEW' THEN
            NULL;
        END;
    END LOOP;

    SELECT
        array_agg(DISTINCT binding) FILTER (WHERE binding IS NOT NULL),
        array_agg(DISTINCT coalesce(mailroom.normal_address(recipient_email), recipient_email))
            FILTER (WHERE subject_id IS NULL),
        array_agg(id) FILTER (WHERE subject_id IS NULL)
    INTO bindings, addresses, nobodys
    FROM mailroom.issued_tokens AS tokens
    WHERE id = ANY (erased);

    receipt_ids := mailroom.receipts_of(erased, forget.address);
    pruned := ARRAY(SELECT DISTINCT token FROM mailroom.receipts WHERE id = ANY (receipt_ids));
    -- Before the log, as pruning does.
    DELETE FROM mailroom.receipts WHERE id = ANY (receipt_ids);

    -- What a server said can name somebody without an address. Rows with a reason have one token.
    UPDATE mailroom.delivery_log AS log
    SET reason = NULL
    FROM (SELECT token FROM pg_catalog.unnest(erased || pruned) AS token GROUP BY token) AS gone
    WHERE log.tokens[1] / 256 = gone.token / 256 AND log.tokens = ARRAY[gone.token]
        AND reason IS NOT NULL;

    PERFORM mailroom.withdraw(erased, 'its subject was forgotten');
    DELETE FROM mailroom.payloads WHERE token = ANY (erased);
    DELETE FROM mailroom.handed_over WHERE token = ANY (erased);

    IF to_regclass('mailroom.adopted_tokens') IS NOT NULL THEN
        DELETE FROM mailroom.adopted_tokens WHERE id = ANY (erased);
    END IF;

    DELETE FROM mailroom.issued_tokens AS tokens WHERE id = ANY (erased);
    DELETE FROM mailroom.browser_codes WHERE binding = ANY (bindings);
    DELETE FROM mailroom.code_failures
    WHERE subject = ANY (
        addresses || ARRAY[forget.subject_id, mailroom.normal_address(forget.address)]
    );
    DELETE FROM mailroom.idempotency_keys WHERE subject_id = forget.subject_id;

    -- Keys of those that have no subject are found by their token alone: all keys are read.
    IF nobodys IS NOT NULL THEN
        DELETE FROM mailroom.idempotency_keys WHERE subject_id IS NULL AND token = ANY (nobodys);
    END IF;

    RETURN cardinality(erased);
END;
$$;

COMMENT ON FUNCTION mailroom.forget(text, text) IS
    'For whoever answers for personal data, a right of its own: erases all that is kept of a '
    'subject and, if an address is given, of mails to it that have no subject. Its mails are not '
    'sent any more, its links are no longer good. The delivery log keeps ids and outcomes; a '
    'suppressed address stays suppressed until lift_suppression(). Answers how many tokens were '
    'erased.';

CREATE FUNCTION mailroom.export_subject(subject_id text, address text DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off
SET timezone = 'UTC' AS $$
#variable_conflict use_column
DECLARE
    known bigint[] := mailroom.tokens_of(export_subject.subject_id, export_subject.address);
    addresses text[] := ARRAY(
        SELECT mailroom.normal_address(recipient_email)
        FROM mailroom.issued_tokens AS tokens
        WHERE id = ANY (known)
        UNION
        SELECT mailroom.normal_address(export_subject.address)
    );
BEGIN
    RETURN jsonb_build_object(
        'subject_id', export_subject.subject_id,
        'exported_at', mailroom.clock(),
        'mails', coalesce((
            SELECT jsonb_agg(
                jsonb_build_object(
                    'token', id,
                    'action', (SELECT name FROM mailroom.actions WHERE number = action),
                    'recipient_email', recipient_email,
                    'recipient_name', recipient_name,
                    'notice_recipient', notice_recipient,
                    'language', language,
                    'traceparent', traceparent,
                    'payload', (SELECT payload FROM mailroom.payloads WHERE token = id),
                    'created_at', to_timestamp(created_at::double precision),
                    'expires_at', to_timestamp(expires_at::double precision),
                    'used_at', to_timestamp(consumed_at::double precision),
                    'cancelled_at', to_timestamp(cancelled_at::double precision),
                    'attempts', coalesce((
                        SELECT jsonb_agg(jsonb_build_object(
                            'happened_at', happened_at, 'attempt', attempt, 'outcome', outcome,
                            'reason', reason
                        ))
                        FROM mailroom.history(id)
                    ), '[]')
                )
                ORDER BY id
            )
            FROM mailroom.issued_tokens AS tokens
            WHERE id = ANY (known)
        ), '[]'),
        'receipts', coalesce((
            SELECT jsonb_agg(
                jsonb_build_object(
                    'token', token, 'attempt', attempt, 'accepted_at', accepted_at,
                    'action', (SELECT name FROM mailroom.actions WHERE number = action),
                    'provider', provider, 'message_id', message_id, 'answer', answer
                )
                ORDER BY accepted_at, id
            )
            FROM mailroom.receipts
            WHERE id = ANY (mailroom.receipts_of(known, export_subject.address))
        ), '[]'),
        'idempotency_keys', coalesce((
            SELECT jsonb_agg(
                jsonb_build_object(
                    'key', key, 'token', token,
                    'action', (SELECT name FROM mailroom.actions WHERE number = action),
                    'expires_at', to_timestamp(expires_at::double precision)
                )
                ORDER BY key, action
            )
            FROM mailroom.idempotency_keys
            WHERE subject_id = export_subject.subject_id
        ), '[]'),
        'wrong_codes', coalesce((
            SELECT sum(failures) FROM mailroom.code_failures
            WHERE subject = ANY (
                ARRAY(
                    SELECT coalesce(mailroom.normal_address(recipient_email), recipient_email)
                    FROM mailroom.issued_tokens AS tokens
                    WHERE id = ANY (known) AND subject_id IS NULL
                )
                || ARRAY[
                    export_subject.subject_id, mailroom.normal_address(export_subject.address)
                ]
            )
        ), 0),
        'suppressions', coalesce((
            SELECT jsonb_agg(
                jsonb_build_object(
                    'address', suppression.address, 'reason', reason, 'provider', provider,
                    'detail', detail, 'suppressed_at', suppressed_at
                )
                ORDER BY suppression.address
            )
            FROM mailroom.suppressions AS suppression
            WHERE suppression.address = ANY (addresses)
        ), '[]')
    );
END;
$$;

COMMENT ON FUNCTION mailroom.export_subject(text, text) IS
    'For whoever answers for personal data, a right of its own: all that is kept of a subject and, '
    'if an address is given, of mails to it that have no subject, as JSON. Without secrets and '
    'codes.';

-- Who may call what: everybody what only computes, nobody else the rest. Roles are given rights as
-- docs/operate/rights.md says.

DO $$
DECLARE
    callable text;
BEGIN
    FOR callable IN
        SELECT pg_proc.oid::regprocedure::text
        FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace
        WHERE nspname = 'mailroom'
            AND pg_has_role(proowner, 'USAGE'::text)
            AND proname NOT IN (
                'begin_step', 'clock', 'code_hash', 'consumed_id', 'is_address', 'is_addressable',
                'is_language', 'is_utf8', 'language_tag', 'map_address', 'normal_address',
                'expiry_bound',
                -- Which those of addresses call.
                'code_points', 'fold_letter', 'punycode', 'to_ascii_label', 'to_utf8'
            )
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', callable);
    END LOOP;
END;
$$;

SELECT mailroom.revoke_default_privileges();
SELECT mailroom.refuse_public_definers();

COMMIT;

-- `cargo xtask schema` writes this file from those of accounts/: change those.
--
-- Faults of the base schema: a token whose transaction committed after one with a higher id was
-- passed by the cursor and never sent; one collector could work at a time; every insert of a token
-- sent a notification, for which transactions commit one after the other in the whole server; a
-- link confirmed an address that it was never sent to; consuming was left to each application's own
-- UPDATE, and nothing said what a column holds, or kept a token from being changed.
--
-- The tables of accounts and tokens become callers of the schema `mailroom`: each token of an
-- account has a row in mailroom.issued_tokens, under the same id, and is queued by the transaction
-- that inserts it. Applications go on inserting tokens and setting consumed_at. New rows are as
-- they shall be from here on; catch_up sees to those that are there.
--
-- Locks: reads tokens for 1 s with two million, beside everybody else. Then nobody reads or writes
-- accounts and tokens for some milliseconds, however large they are.

BEGIN;

-- Codes came from random(), whose later values follow from a few earlier ones, and rounding made
-- '#####' of one in 200,000 and 00000 half as likely as the others. New codes come from the
-- server's cryptographic generator, each of the 100,000 as likely as any other.

-- Only five ASCII digits can be signed. Codes of the application's own making are not ours to
-- replace, and the constraint below would refuse the next one: better to stop before anything is
-- changed.
DO $$
DECLARE
    foreign_code bigint;
BEGIN
    SELECT id INTO foreign_code
    FROM tokens
    WHERE code::text !~ '^[0-9]{5}$' AND code::text <> '#####'
    LIMIT 1;

    IF FOUND THEN
        RAISE EXCEPTION 'the code of token % is not five digits', foreign_code
            USING ERRCODE = 'check_violation',
                HINT = 'Mailroom signs codes of exactly five ASCII digits. Let the application '
                    'insert such codes or none at all, delete these tokens or set their code to '
                    'NULL, and migrate again.';
    END IF;
END;
$$;

-- Without a search path of its own, which every insert of a token would set: all names have their
-- schema.
CREATE FUNCTION generate_token_code() RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS $$
DECLARE
    number bigint;
BEGIN
    LOOP
        -- The first 32 bits of a random UUID are all random.
        number := ('x' OPERATOR(pg_catalog.||)
            pg_catalog.left(pg_catalog.gen_random_uuid()::pg_catalog.text, 8))::bit(32)::bigint;
        -- What lies above the largest multiple of 100,000 below 2^32 would favour the lower codes.
        EXIT WHEN number OPERATOR(pg_catalog.<) 4294900000;
    END LOOP;

    RETURN pg_catalog.to_char(number OPERATOR(pg_catalog.%) 100000, 'FM00000');
END;
$$;

-- Where new functions are not everybody's by default, inserting a token would otherwise need a
-- right of its own.
GRANT EXECUTE ON FUNCTION generate_token_code() TO PUBLIC;

COMMENT ON FUNCTION generate_token_code() IS
    'Five decimal digits from a cryptographic generator, uniformly distributed.';

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

-- Which accounts may get and use mails.

COMMENT ON FUNCTION mailroom.provisioned_accounts(text[], boolean) IS
    'Accounts that may be activated, locked for a redemption.';
COMMENT ON FUNCTION mailroom.active_accounts(text[], boolean) IS
    'Accounts that may be recovered and signed in to, locked for a redemption.';

UPDATE mailroom.actions SET eligibility = 'mailroom.provisioned_accounts(text[], boolean)'
    WHERE number = 1;

UPDATE mailroom.actions SET eligibility = 'mailroom.active_accounts(text[], boolean)'
    WHERE number IN (2, 5);

-- Reads the accounts in the statement that checks: to ask a function and to join its answers takes
-- a fifth of a claim longer. What is no id is nobody, and keeps nobody else from being found.
--
-- As a string, which is read by the search path of the function that calls it: a body that is bound
-- would keep the view from being made anew, as it has to be where a column of accounts gets another
-- type.
CREATE OR REPLACE FUNCTION mailroom.check_without_calls(places tid[], expiry_bound bigint,
    signable smallint[], binds boolean) RETURNS SETOF mailroom.checked_candidate
LANGUAGE sql STABLE AS $$
    SELECT checked.*
    FROM mailroom.candidates(places) AS locked
    LEFT JOIN LATERAL (
        SELECT email::text AS email, login::text AS name
        FROM mailroom.adopted_accounts AS accounts
        WHERE id = CASE
                WHEN octet_length(locked.subject_id) BETWEEN 1 AND 18
                    AND ltrim(locked.subject_id, '0123456789') = ''
                    AND locked.subject_id NOT LIKE '0_%'
                THEN locked.subject_id::bigint
            END
            AND CASE locked.eligibility
                WHEN 'mailroom.provisioned_accounts(text[],boolean)' THEN status = 'provisioned'
                WHEN 'mailroom.active_accounts(text[],boolean)' THEN status = 'active'
            END
        OFFSET 0
    ) AS present ON true
    CROSS JOIN LATERAL mailroom.check_candidate(
        locked,
        present.email,
        present.name,
        CASE
            WHEN locked.eligibility NOT IN ('mailroom.provisioned_accounts(text[],boolean)',
                'mailroom.active_accounts(text[],boolean)')
            THEN 'must be asked'
        END,
        expiry_bound,
        signable,
        binds
    ) AS checked
$$;

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

-- Tokens that are used, by mailroom.redeem() or by an application's own UPDATE, or deleted.

-- Applications of the base schema use a token by their own UPDATE, and take a row that was not
-- updated for one that is not valid.
CREATE FUNCTION mailroom.trg_before_token_consumed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
BEGIN
    IF EXISTS (
        SELECT
        FROM mailroom.issued_tokens AS tokens
        LEFT JOIN mailroom.adopted_accounts AS accounts ON accounts.id = OLD.account
        WHERE tokens.id = OLD.id
            AND (
                tokens.cancelled_at IS NOT NULL
                OR (
                    tokens.recipient_email <> accounts.email::text COLLATE "C"
                    AND mailroom.normal_address(tokens.recipient_email) IS DISTINCT
                        FROM mailroom.normal_address(accounts.email::text)
                )
                -- Only redeem(), which has set this already,
                -- knows whether the browser is the right one.
                OR (tokens.binding IS NOT NULL AND tokens.consumed_at IS NULL)
            )
    ) THEN
        RETURN NULL;
    END IF;

    RETURN NEW;
END;
$$;

COMMENT ON FUNCTION mailroom.trg_before_token_consumed() IS
    'Keeps a token unused that was cancelled, or sent to another address than its account has, or '
    'bound to a browser and not redeemed.';

CREATE FUNCTION mailroom.trg_after_token_consumed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    used mailroom.issued_tokens%ROWTYPE;
    wanted mailroom.actions%ROWTYPE;
BEGIN
    UPDATE mailroom.issued_tokens AS tokens SET consumed_at = NEW.consumed_at WHERE id = NEW.id
        AND consumed_at IS NULL
    RETURNING tokens.* INTO used;

    -- Not where it was redeemed, which does the same.
    IF FOUND THEN
        SELECT * INTO wanted FROM mailroom.actions WHERE number = used.action;
        PERFORM mailroom.withdraw(ARRAY[NEW.id], 'it was used');
        PERFORM mailroom.end_others(
            used, wanted, mailroom.lock_links(used.subject_id, used.id),
            floor(extract(epoch FROM mailroom.clock()))::bigint
        );

        IF wanted.notice IS NOT NULL THEN
            PERFORM mailroom.notify_of_use(used, wanted, NULL::text);
        END IF;
    END IF;

    IF NEW.action::text = 'activation' THEN
        UPDATE mailroom.adopted_accounts SET status = 'active' WHERE id = NEW.account
            AND status::text = 'provisioned';
    END IF;

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION mailroom.trg_after_token_consumed() IS
    'Takes a token that was used out of the queue, and activates a provisioned account whose '
    'activation token it was.';

CREATE FUNCTION mailroom.trg_after_token_redeemed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
BEGIN
    UPDATE mailroom.adopted_tokens SET consumed_at = NEW.consumed_at WHERE id = NEW.id
        AND consumed_at IS NULL;

    IF NOT FOUND AND NEW.action = 1 AND NEW.subject_id ~ '^(0|[1-9][0-9]{0,17})$' THEN
        UPDATE mailroom.adopted_accounts SET status = 'active'
        WHERE id = NEW.subject_id::bigint AND status::text = 'provisioned'
            AND email::text = NEW.recipient_email COLLATE "C";
    END IF;

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION mailroom.trg_after_token_redeemed() IS
    'Sets consumed_at of an account''s token that was redeemed, and activates a provisioned '
    'account whose activation token has no row there.';

CREATE FUNCTION mailroom.trg_after_tokens_delete() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    ids bigint[] := ARRAY(SELECT id FROM gone);
BEGIN
    -- In the order in which whoever locks tokens does so. Those of an account that is deleted are
    -- locked already, with its others.
    PERFORM FROM mailroom.issued_tokens AS tokens
    WHERE id = ANY (ids)
    ORDER BY id + 0
    FOR UPDATE;

    PERFORM mailroom.withdraw(ids, 'it was deleted');
    DELETE FROM mailroom.issued_tokens AS tokens WHERE id = ANY (ids);
    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION mailroom.trg_after_tokens_delete() IS
    'Takes tokens of accounts that were deleted out of the queue.';

-- TRUNCATE deletes no rows one by one, and may begin to number tokens at 1 again: what the queue
-- and the log say of the old ones must not be taken for the new ones.
CREATE FUNCTION mailroom.trg_after_tokens_truncate() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ids bigint[] := ARRAY(SELECT id FROM mailroom.issued_tokens AS tokens WHERE action IN (1, 2));
    sequence regclass := pg_get_serial_sequence(TG_RELID::regclass::text, 'id');
    newest bigint := (SELECT max(id) FROM mailroom.issued_tokens AS tokens);
BEGIN
    IF newest IS NOT NULL THEN
        PERFORM setval(sequence, greatest(newest, nextval(sequence)));
    END IF;

    PERFORM mailroom.withdraw(ids, NULL);
    DELETE FROM mailroom.dead_letters WHERE token = ANY (ids);
    DELETE FROM mailroom.handed_over WHERE token = ANY (ids);
    DELETE FROM mailroom.issued_tokens AS tokens WHERE id = ANY (ids);

    -- Accounts may be numbered at 1 again.
    IF NOT EXISTS (SELECT FROM mailroom.adopted_accounts) THEN
        DELETE FROM mailroom.code_failures WHERE translate(subject, '0123456789', '') = '';
    END IF;

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION mailroom.trg_after_tokens_truncate() IS
    'Takes the tokens of accounts out of the queue with their table. Ids go on where they were.';

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

-- Somebody asks for a mail by an address or a name.

-- Takes the same steps and answers the same, nothing, for whatever it is given: no account, one
-- that is not eligible, one that was served lately, or one that gets a token. It never waits,
-- because only a call for somebody who exists would: of calls at the same time for one account the
-- first serves it and the others find its row locked.
--
-- Locks: the account's row, if it is free: a foreign key would wait for it at the commit, and only
-- for an account that exists. Who asks while an account is being changed gets nothing, and asks
-- again. And the tables, as an insert does, but for whoever asks.
CREATE FUNCTION mailroom.request(
    email_or_login text,
    action text,
    cooldown interval DEFAULT NULL,
    at_most integer DEFAULT 5,
    per interval DEFAULT '1 hour',
    binding bytea DEFAULT NULL,
    traceparent text DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    action_row mailroom.actions%ROWTYPE;
    -- No column is longer. What is longer than this is found by nobody, and is not hashed in full.
    wanted text := left(request.email_or_login, 255);
    epoch bigint := floor(extract(epoch FROM mailroom.clock()));
    cooldown_seconds numeric;
    period_seconds numeric := extract(epoch FROM request.per);
    candidate bigint;
    present record;
    resting bigint;
    newest bigint;
    made bigint;
    bound bytea := request.binding;
    is_locked boolean;
    is_eligible boolean;
    outer_binding text := current_setting('mailroom.binding', true);
    outer_traceparent text := current_setting('mailroom.traceparent', true);
BEGIN
    SELECT * INTO action_row FROM mailroom.actions WHERE name = request.action AND NOT is_retired;

    IF action_row.eligibility IS NULL THEN
        RAISE EXCEPTION 'mailroom.request(): there is no such action for accounts'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    IF octet_length(request.binding) <> 16 THEN
        RAISE EXCEPTION 'mailroom.request(): binding is not of 16 bytes'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    cooldown_seconds := extract(epoch FROM coalesce(request.cooldown, action_row.cooldown));

    -- Tokens are kept as long as the longest of these that was ever asked for.
    IF (cooldown_seconds BETWEEN 0::numeric AND 2678400::numeric
        AND period_seconds BETWEEN 0::numeric AND 2678400::numeric
        AND request.at_most >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION 'the limits of mailroom.request() are out of range'
            USING ERRCODE = 'invalid_parameter_value',
                HINT = 'cooldown and per are intervals from zero seconds to 31 days, '
                    'at_most is 1 or more.';
    END IF;

    -- In the others the transaction may have begun to look before another call made a token, and
    -- make a second one.
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'mailroom.request() does not work in % transactions',
            current_setting('transaction_isolation')
            USING ERRCODE = 'invalid_transaction_state',
                HINT = 'Call it in a transaction of its own, with the isolation level READ '
                    'COMMITTED.';
    END IF;

    -- Until then the tokens that this counts are not pruned.
    PERFORM setval('mailroom.longest_limit', asked.seconds)
    FROM (
        SELECT ceil(greatest(cooldown_seconds, period_seconds))::bigint AS seconds
    ) AS asked
    JOIN mailroom.longest_limit AS longest ON longest.last_value < asked.seconds;

    -- Where a migration or an index has them locked, everybody waits.
    LOCK TABLE mailroom.adopted_accounts IN ROW SHARE MODE;
    LOCK TABLE mailroom.adopted_tokens IN ROW EXCLUSIVE MODE;

    -- A login may look like somebody else's email: whose email it is goes first.
    SELECT id INTO candidate
    FROM mailroom.adopted_accounts AS accounts
    WHERE accounts.email::text = wanted OR accounts.login::text = wanted
    ORDER BY accounts.email::text = wanted DESC
    LIMIT 1;

    -- Of calls at the same time for one account the others find its row locked. An advisory lock
    -- would do for people who do not exist as well, but every role can see and take those.
    PERFORM FROM mailroom.adopted_accounts AS accounts
        WHERE id = coalesce(candidate, 0::bigint) FOR NO KEY UPDATE SKIP LOCKED;
    is_locked := FOUND;

    -- As it is now that it cannot change: the status by which the token is checked, and the address
    -- that it is for.
    SELECT answer.email, answer.name, answer.subject_id INTO present
    FROM mailroom.ask_eligibility(action_row.eligibility,
        ARRAY[coalesce(candidate, 0::bigint)::text]) AS answer
    WHERE answer.fault IS NULL;
    is_eligible := present.subject_id IS NOT NULL;

    SELECT rests_until INTO resting FROM mailroom.code_failures
    WHERE subject = coalesce(candidate, 0::bigint)::text AND NOT is_other_browser;

    SELECT max(created_at), count(*) FILTER (WHERE created_at::numeric > epoch::numeric -
        period_seconds)
    INTO newest, made
    FROM mailroom.issued_tokens AS tokens
    WHERE subject_id = coalesce(candidate, 0::bigint)::text AND tokens.action = action_row.number;

    -- The last mail within the period, of several, is for any browser, where it has a code beside
    -- its link: a stranger who asks for all of them, bound to browsers of his own, would leave the
    -- account's owner none that she can use.
    IF action_row.code_digits > 0 AND made > 0 AND made = request.at_most::bigint - 1 THEN
        bound := NULL;
    END IF;

    PERFORM set_config('mailroom.binding', coalesce(encode(bound, 'hex'), ''::text), true);
    -- Most calls name no trace: what the setting says stays.
    IF request.traceparent IS NOT NULL THEN
        PERFORM set_config('mailroom.traceparent',
            coalesce(mailroom.traceparent(request.traceparent), ''::text), true);
    END IF;

    IF is_locked
        AND is_eligible
        AND (resting > epoch) IS NOT TRUE
        -- A time ahead of the clock, which may have been set back, counts as now.
        AND (newest IS NULL OR least(newest, epoch)::numeric <= epoch::numeric - cooldown_seconds)
        AND made < request.at_most::bigint
    THEN
        IF action_row.number = 1 THEN
            INSERT INTO mailroom.adopted_tokens (account, action, created_at)
                VALUES (candidate, 'activation', epoch);
        ELSIF action_row.number = 2 THEN
            INSERT INTO mailroom.adopted_tokens (account, action, created_at)
                VALUES (candidate, 'password_recovery', epoch);
        -- An account that nobody can mail to is like none.
        ELSIF mailroom.is_address(present.email) THEN
            PERFORM mailroom.enqueue(
                action_row.name, present.email, present.name, present.subject_id, NULL::jsonb,
                (SELECT language::text FROM mailroom.adopted_accounts WHERE id = candidate),
                NULL::timestamptz, NULL::text, bound, NULL::text,
                NULL::text
            );
        END IF;
    END IF;

    PERFORM set_config('mailroom.binding', coalesce(outer_binding, ''::text), true);
    IF request.traceparent IS NOT NULL THEN
        PERFORM set_config('mailroom.traceparent', coalesce(outer_traceparent, ''::text), true);
    END IF;

    -- A commit that has nothing to write returns at once, and one that has waits for the disk: the
    -- greatest difference of all. This writes some bytes to the log in any case, and nowhere else.
    PERFORM pg_catalog.pg_logical_emit_message(true, 'mailroom', ''::text);
END;
$$;

COMMENT ON FUNCTION mailroom.request(text, text, interval, integer, interval, bytea, text) IS
    'Makes a token for the account with this email or, if there is none, this login, if the '
    'account is eligible for the action, got none of this action for the time of cooldown, and '
    'fewer than at_most within per. Answers nothing and takes the same steps whether it did or '
    'not. binding names the browser that asks, as in issued_tokens; the last of at_most, of an '
    'action with a code, is for any. traceparent names the trace, as enqueue() takes it.';

-- The accounts' table of tokens does not grow for ever.

-- Those from before this step have no row in tokens.
CREATE FUNCTION mailroom.prune_account_tokens(
    before timestamptz, after_id bigint, most integer, OUT pruned bigint, OUT through_id bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    ended bigint := floor(extract(epoch FROM before))::bigint;
    -- By these request() knows how many an account has had.
    uncounted bigint := floor(extract(epoch FROM mailroom.clock()))::bigint
        - (SELECT nullif(last_value, 0) FROM mailroom.longest_limit);
    seen integer;
    earliest bigint;
BEGIN
    PERFORM mailroom.begin_step(before);

    SELECT count(*)::integer, min(created_at), max(id) INTO seen, earliest, through_id
    FROM (SELECT id, created_at FROM mailroom.adopted_tokens WHERE id > after_id ORDER BY id
        LIMIT most) AS next;

    DELETE FROM mailroom.adopted_tokens
    WHERE id = ANY (ARRAY(
        SELECT id
        FROM mailroom.adopted_tokens
        WHERE id > after_id
            AND id <= through_id
            AND expires_at < ended
            AND (created_at > uncounted) IS NOT TRUE
            AND NOT EXISTS (SELECT FROM mailroom.queue WHERE token = id)
            AND NOT EXISTS (SELECT FROM mailroom.dead_letters WHERE token = id)
            AND NOT EXISTS (SELECT FROM mailroom.handed_over WHERE token = id)
            AND id NOT IN (SELECT pg_catalog.unnest(leases.tokens) FROM mailroom.leases)
        FOR UPDATE SKIP LOCKED
    ));

    GET DIAGNOSTICS pruned = ROW_COUNT;

    IF seen < most OR earliest >= ended THEN
        through_id := NULL;
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.prune_account_tokens(timestamptz, bigint, integer) IS
    'As prune_tokens(), for the table of the accounts'' tokens.';

-- What the tables keep by themselves. Trigger functions found tables on the search path of whoever
-- changed a row, and compared enums by an operator for any enum, which PostgreSQL passes over for
-- one of exactly this enum further down the search path: whoever may create objects in the schema
-- of the tables, which in the schema public of a database from before PostgreSQL 15 is everybody,
-- could define one and have it executed with the rights of those who change rows. Text is compared
-- by a built-in operator that nothing can match better. Integers end on 2038-01-19.

CREATE OR REPLACE FUNCTION trg_before_account_status_change() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    changed_at bigint := extract(epoch FROM now());
BEGIN
    IF NEW.status::text = OLD.status::text THEN
        RETURN NEW;
    END IF;

    NEW.status_changed_at := changed_at;

    IF NEW.status::text = 'suspended' THEN
        NEW.suspended_at := changed_at;
        NEW.unsuspended_at := NULL;
        -- An account that was inserted as active has no time of activation, so that a suspension
        -- and its end would make it provisioned, and it would get no recovery any more. Of those
        -- that are suspended already nobody knows whether they were active before; where an
        -- installation knows, it sets activated_at itself.
        IF OLD.status::text = 'active' AND OLD.activated_at IS NULL THEN
            NEW.activated_at := coalesce(NEW.activated_at, OLD.status_changed_at, OLD.created_at);
        END IF;
    ELSIF OLD.status::text = 'suspended' THEN
        NEW.unsuspended_at := changed_at;
        NEW.suspended_at := NULL;
        -- Lifting a suspension must not activate an account whose address was never confirmed.
        IF OLD.activated_at IS NULL THEN
            NEW.status := 'provisioned';
        END IF;
    ELSIF NEW.status::text = 'active' AND OLD.activated_at IS NULL THEN
        NEW.activated_at := changed_at;
    END IF;

    RETURN NEW;
END;
$$;

COMMENT ON FUNCTION trg_before_account_status_change() IS
    'Keeps the times of an account''s status; a suspension lifted from a never activated account '
    'leaves it provisioned. An active account without a time of activation gets one when it is '
    'suspended: when its status last changed or, if it never did, when it was made.';

-- Nothing kept anybody from changing the secret, code or expiry of a token for which a mail had
-- gone out, from giving it to another account, or from making a used one fresh again. Only
-- consumed_at changes, once, from null to a time: existing applications consume that way.
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

COMMENT ON FUNCTION trg_after_token_changed() IS
    'Refuses every change of a token but its use, which is consumed_at going from null to a time.';

DO $$
DECLARE
    home name := (
        SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE pg_class.oid = 'tokens'::regclass::oid
    );
BEGIN
    EXECUTE pg_catalog.format(
        'ALTER FUNCTION trg_before_account_status_change() SET search_path = pg_catalog, %1$I, '
        'pg_temp; '
        'ALTER FUNCTION trg_after_token_changed() SET search_path = pg_catalog, %1$I, pg_temp',
        home
    );
END;
$$;

COMMENT ON TABLE accounts IS 'People who registered, and where each of them stands.';
COMMENT ON COLUMN accounts.email IS 'Address that mails go to; unique as written, case included.';
COMMENT ON COLUMN accounts.status IS
    'provisioned: registered, address not confirmed; active: confirmed; suspended: '
    'barred until unsuspended.';
COMMENT ON COLUMN accounts.login IS 'Name shown in mails; unique as written, case included.';
COMMENT ON COLUMN accounts.created_at IS 'Seconds since the Unix epoch.';
COMMENT ON COLUMN accounts.status_changed_at IS
    'Last change of status, in seconds since the Unix epoch; kept by trigger.';
COMMENT ON COLUMN accounts.activated_at IS
    'First activation, in seconds since the Unix epoch; null until then; kept by trigger.';
COMMENT ON COLUMN accounts.suspended_at IS
    'Start of the present suspension, in seconds since the Unix epoch; '
    'null if there is none; kept by trigger.';
COMMENT ON COLUMN accounts.unsuspended_at IS
    'End of the last suspension, in seconds since the Unix epoch; '
    'null during one; kept by trigger.';

COMMENT ON CONSTRAINT accounts_email_key ON accounts IS
    'Serves ON CONFLICT (email) and finding an account by address.';
COMMENT ON CONSTRAINT accounts_login_key ON accounts IS
    'Serves ON CONFLICT (login) and finding an account by name.';

COMMENT ON TABLE tokens IS
    'One-time tokens. Secret, code, action and expiry of a row never change: '
    'more time means a new row.';
COMMENT ON COLUMN tokens.action IS
    'activation: confirms the address of a provisioned account; password_recovery: '
    'for an active account.';
COMMENT ON COLUMN tokens.secret IS
    '32 random bytes, which the signed link carries; whoever knows them has the token.';
COMMENT ON COLUMN tokens.code IS
    'Five ASCII digits, leading zeros included, each code equally likely; the mail shows it, '
    'the person types it.';
COMMENT ON COLUMN tokens.account IS 'Account the token belongs to; it is deleted with it.';
COMMENT ON COLUMN tokens.expires_at IS
    'First second at which the token is no longer valid, in seconds since the Unix epoch; 15 '
    'minutes from now by default.';
COMMENT ON COLUMN tokens.consumed_at IS
    'When the token was used, in seconds since the Unix epoch; null until then.';
COMMENT ON COLUMN tokens.created_at IS 'Seconds since the Unix epoch.';

COMMENT ON CONSTRAINT tokens_secret_key ON tokens IS
    'Serves redeeming: the row that belongs to a link.';
COMMENT ON CONSTRAINT tokens_account_fkey ON tokens IS
    'Deferred to the commit, so that applications may insert a token before its account.';
COMMENT ON INDEX tokens_account_fkey IS
    'Serves the deletion of an account and finding an account''s tokens.';

COMMENT ON TABLE jobs IS 'How far collectors have read.';
COMMENT ON COLUMN jobs.job_type IS 'Name of the queue.';
COMMENT ON INDEX jobs_last_seq_type_idx IS
    'Serves collectors that join jobs and tokens by last_seq.';

-- From here on nobody reads or writes the tables.

-- Ends an autovacuum, for which others would have to wait together with the locks below.
LOCK TABLE accounts, tokens IN SHARE UPDATE EXCLUSIVE MODE;

-- Waits for every transaction that has inserted a token, and for collectors that move the cursor.
SELECT mailroom.lock_briefly('jobs', 'accounts', 'tokens');

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

-- The cursor goes to the end of all ids, where collectors that know nothing of the queue find
-- nothing to send; `mailroom` refuses to collect by it. What it still owes is taken over by
-- catch_up.

-- Which tokens were sent, and which are still to be looked at; until catch_up has taken them over.
ALTER TABLE mailroom.installation ADD COLUMN adopted_after bigint, ADD COLUMN adopts_through bigint;

UPDATE mailroom.installation
SET adopted_after = coalesce((SELECT min(coalesce(last_seq, 0))
    FROM jobs), 0), adopts_through = (SELECT max(id) FROM tokens);

UPDATE jobs SET last_seq = 9223372036854775807;

COMMENT ON COLUMN jobs.last_seq IS
    'Id up to which tokens were read by a cursor; the greatest number since tokens are queued '
    'in mailroom.queue.';

-- Nobody but the owner may call what was made here; roles are given rights as
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
            AND proname IN (
                'active_accounts', 'binding_setting', 'check_without_calls', 'next_token_id',
                'provisioned_accounts', 'prune_account_tokens', 'request',
                'trg_after_account_change', 'trg_after_account_replicated',
                'trg_after_accounts_delete', 'trg_after_accounts_insert',
                'trg_after_token_consumed', 'trg_after_token_redeemed', 'trg_after_tokens_delete',
                'trg_after_tokens_insert', 'trg_after_tokens_truncate',
                'trg_before_token_consumed'
            )
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', callable);
    END LOOP;
END;
$$;

-- Functions call those of other steps with the rights of their owner: what a superuser has made for
-- another role becomes that role's.
DO $$
DECLARE
    migrator oid := (SELECT oid FROM pg_roles WHERE rolname = current_user);
    home oid := (SELECT oid FROM pg_namespace WHERE nspname = 'mailroom');
    owner oid := (SELECT relowner FROM pg_class WHERE oid = 'mailroom.queue'::regclass::oid);
    made text;
BEGIN
    FOR made IN
        SELECT 'FUNCTION ' || oid::regprocedure::text
        FROM pg_proc
        WHERE pronamespace = home AND proowner = migrator AND migrator <> owner
        UNION ALL
        SELECT 'VIEW ' || oid::regclass::text
        FROM pg_class
        WHERE relnamespace = home AND relkind = 'v' AND relowner = migrator AND migrator <> owner
        UNION ALL
        SELECT 'SEQUENCE ' || oid::regclass::text
        FROM pg_class
        WHERE relnamespace = home AND relkind = 'S' AND relowner = migrator AND migrator <> owner
            -- Those of columns go with their tables.
            AND NOT EXISTS (
                SELECT FROM pg_depend
                WHERE classid = 'pg_class'::regclass::oid AND objid = pg_class.oid
                    AND deptype IN ('a', 'i')
            )
    LOOP
        EXECUTE pg_catalog.format('ALTER %s OWNER TO %s', made, owner::regrole);
    END LOOP;
END;
$$;

SELECT mailroom.revoke_default_privileges();
SELECT mailroom.refuse_public_definers();

COMMIT;

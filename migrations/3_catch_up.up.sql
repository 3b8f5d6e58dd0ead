-- no-transaction
--
-- Brings the rows that were there before to where new ones are. In batches: each commits with how
-- far it came, and when this is executed again it goes on from there. The way down takes back what
-- was begun.
-- 1. One code in 200,000 is '#####', which nobody can type and everybody could guess. Those get a
--    real one. A mail that already went out with '#####' cannot be answered: its owner has to ask
--    for another.
-- 2. What the cursor still owed is taken over into the queue, the newest tokens first, since those
--    are good for longest: every token after it, whatever its state, so that each gets its entry in
--    the log; and of the tokens before it those that can still be used. Of these those are queued
--    whose account has not the right status, or got it so late that the cursor may have passed them
--    before: they are sent, perhaps for the second time.
-- 3. Integer seconds end on 2038-01-19 at 03:14:07 UTC; from then on no token or account could be
--    inserted. To change a column's type rewrites the table, which nobody can read meanwhile: 10 s
--    with two million tokens. So the columns are replaced: new ones are added, with a trigger that
--    copies into them whatever is written to the old ones, which all keep using; the rows that are
--    there are copied; and one transaction drops the old columns and gives the new ones their
--    names, defaults, comments and triggers. As the old ones were the last of the table, the new
--    ones, which are added behind them, have their places. What somebody else has made for the
--    columns would be lost: it is named, and the table is left as it is.
--
-- Locks: a thousand rows at a time cannot be changed for less than 0.1 s. Rows that others have
-- locked are passed over and waited for alone, so that nobody who locks several waits for this in a
-- circle. Nobody reads or writes tokens or accounts for some milliseconds, twice each, and writers
-- of tokens once more if codes are repaired.

DO $migration$
DECLARE
    batch CONSTANT integer := 1000;
    -- Plans for each batch by primary key, whatever the size of what has been taken over.
    unwanted_plans CONSTANT text[] :=
        ARRAY['enable_seqscan', 'enable_hashjoin', 'enable_mergejoin', 'jit'];
    damaged bigint[];
    sent_through bigint;
    this_second bigint;
    wanted bigint[];
    locked bigint[];
    lower bigint;
    upper bigint;
    missed bigint;
    -- The table whose columns are replaced, and what names them.
    relation regclass;
    epochs text[];
    copies text[];
    epoch_list text;
    copy_list text;
    -- Mailroom's triggers and views that read one of the columns; they are made again.
    own_triggers text[];
    own_views text[];
    -- Name of the function that keeps the columns equal, and of the constraint on the new ones.
    copy_function text;
    -- BEFORE triggers fire in the order of their names: this one last, when the values are what
    -- will be stored.
    copy_trigger text;
    -- What would be lost with the columns $2 of table $1, but for their own defaults and
    -- constraints NOT NULL, the triggers $3 and the views $5; and triggers that could change a
    -- value after trigger $4 has copied it.
    obstacles CONSTANT text := $query$
        SELECT string_agg(DISTINCT obstacle, ', ')
        FROM (
            SELECT pg_describe_object(classid, objid, objsubid)
            FROM pg_depend JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid
            WHERE refclassid = 'pg_class'::regclass::oid AND refobjid = $1::oid
                AND attname = ANY ($2)
                AND NOT (classid = 'pg_attrdef'::regclass::oid AND EXISTS (
                    SELECT FROM pg_attrdef WHERE pg_attrdef.oid = objid AND adrelid = refobjid
                        AND adnum = refobjsubid
                ))
                AND NOT (classid = 'pg_constraint'::regclass::oid AND EXISTS (
                    SELECT FROM pg_constraint WHERE pg_constraint.oid = objid AND contype = 'n'
                ))
                AND NOT (classid = 'pg_trigger'::regclass::oid AND EXISTS (
                    SELECT FROM pg_trigger WHERE pg_trigger.oid = objid AND tgname = ANY ($3)
                ))
                AND NOT (classid = 'pg_rewrite'::regclass::oid AND EXISTS (
                    SELECT FROM pg_rewrite
                    WHERE pg_rewrite.oid = objid AND ev_class = ANY ($5::regclass[]::oid[])
                ))
            UNION ALL
            SELECT pg_catalog.format('privileges on column %s of table %s', attname, $1)
            FROM pg_attribute
            WHERE attrelid = $1::oid AND attname = ANY ($2) AND attacl IS NOT NULL
            UNION ALL
            -- Row level is 1, BEFORE 2, INSERT 4, UPDATE 16.
            SELECT pg_catalog.format('trigger %s on table %s, which fires after %s', tgname, $1, $4)
            FROM pg_trigger
            WHERE tgrelid = $1::oid
                AND tgtype::integer & 3 = 3
                AND tgtype::integer & 20 > 0
                AND tgname > $4::name
        ) AS found (obstacle)
    $query$;
    obstacle text;
    statement text;
BEGIN
    PERFORM set_config('lock_timeout', '5s', false) WHERE current_setting('lock_timeout') = '0';

    -- 1. Codes. The constraint refuses new ones of that kind. Nobody may change a token, so the
    -- trigger that refuses it is off while codes are repaired, and nobody else writes.
    IF EXISTS (
        SELECT FROM pg_constraint
        WHERE conrelid = 'tokens'::regclass::oid AND conname = 'tokens_code_five_digits'
            AND NOT convalidated
    ) THEN
        damaged := ARRAY(SELECT id FROM tokens WHERE code::text = '#####');
        COMMIT;

        IF damaged[1] IS NOT NULL THEN
            LOCK TABLE tokens IN SHARE UPDATE EXCLUSIVE MODE;
            PERFORM mailroom.lock_briefly('tokens');
            ALTER TABLE tokens DISABLE TRIGGER after_token_changed;
            UPDATE tokens SET code = generate_token_code()
            WHERE id = ANY (damaged) AND code::text = '#####';
            ALTER TABLE tokens ENABLE TRIGGER after_token_changed;
            COMMIT;
        END IF;

        ALTER TABLE tokens VALIDATE CONSTRAINT tokens_code_five_digits;
        COMMIT;
    END IF;

    -- 2. The queue. Where all was done already, and only not recorded, the columns are gone.
    ALTER TABLE mailroom.installation
        ADD COLUMN IF NOT EXISTS adopted_after bigint,
        ADD COLUMN IF NOT EXISTS adopts_through bigint;
    COMMIT;

    LOOP
        PERFORM set_config(name, 'off', true) FROM pg_catalog.unnest(unwanted_plans) AS name;
        PERFORM FROM tokens WHERE id = missed FOR NO KEY UPDATE;

        SELECT adopted_after, adopts_through INTO sent_through, upper FROM mailroom.installation;
        lower := (SELECT min(id) FROM (SELECT id FROM tokens WHERE id <= upper ORDER BY id DESC
            LIMIT batch) AS next);
        EXIT WHEN lower IS NULL;

        this_second := floor(extract(epoch FROM clock_timestamp()));
        wanted := ARRAY(
            SELECT id FROM tokens
            WHERE id BETWEEN lower AND upper
                AND (id > sent_through OR (consumed_at IS NULL AND expires_at > this_second))
                AND NOT EXISTS (
                    SELECT FROM mailroom.issued_tokens AS known
                    WHERE known.id = tokens.id AND known.consumed_id =
                        mailroom.consumed_id(tokens.secret)
                )
        );
        -- Who uses a token now waits, and finds it in issued_tokens then.
        locked := ARRAY(SELECT id FROM tokens WHERE id = ANY (wanted) FOR NO KEY UPDATE SKIP
            LOCKED);

        WITH
        taken_over AS MATERIALIZED (
            SELECT
                tokens.*,
                CASE tokens.action::text WHEN 'activation' THEN 1 ELSE 2 END AS number,
                CASE WHEN mailroom.is_addressable(accounts.email::text)
                    THEN accounts.email::text END AS recipient_email,
                accounts.login::text AS recipient_name,
                accounts.status::text,
                accounts.status_changed_at
            FROM tokens
            JOIN accounts ON accounts.id = tokens.account
            WHERE tokens.id = ANY (locked)
        ),
        known AS (
            INSERT INTO mailroom.issued_tokens (
                id, action, subject_id, recipient_email, recipient_name, consumed_id, code_hash,
                    created_at, expires_at, consumed_at
            )
            SELECT
                id,
                number,
                account::text,
                recipient_email,
                recipient_name,
                mailroom.consumed_id(secret),
                CASE number WHEN 1 THEN NULL ELSE mailroom.code_hash(secret, code) END,
                created_at,
                expires_at,
                consumed_at
            FROM taken_over
        )
        INSERT INTO mailroom.queue (token, due_at, priority, secret, code)
        SELECT id, clock_timestamp(), 2 - number, secret, code
        FROM taken_over
        WHERE id > sent_through
            OR status IS DISTINCT FROM CASE number WHEN 1 THEN 'provisioned' ELSE 'active' END
            -- What the cursor has been told of accounts is no older than the last token that it has
            -- passed, but for the longest time between two looks of a collector, 270 s, and for
            -- transactions that take a minute.
            OR (
                status_changed_at >= created_at - 60
                AND status_changed_at
                    >= (SELECT created_at FROM tokens WHERE id <= sent_through ORDER BY id DESC
                        LIMIT 1) - 330
            ) IS TRUE
        ORDER BY id;

        missed := (
            SELECT min(id)
            FROM (SELECT pg_catalog.unnest(wanted) EXCEPT SELECT pg_catalog.unnest(locked))
                AS rest (id)
        );

        IF missed IS NULL THEN
            UPDATE mailroom.installation SET adopts_through = lower - 1;
        END IF;

        COMMIT;
    END LOOP;

    -- 3. Wide columns.
    FOREACH relation IN ARRAY ARRAY['tokens', 'accounts']::regclass[] LOOP
        IF relation::oid = 'tokens'::regclass::oid THEN
            epochs := ARRAY['expires_at', 'consumed_at', 'created_at'];
            own_triggers :=
                ARRAY['before_token_consumed', 'after_token_consumed', 'after_token_changed'];
            own_views := ARRAY['mailroom.adopted_tokens'];
            copy_function := 'copy_token_epochs';
        ELSE
            epochs := ARRAY['created_at', 'status_changed_at', 'activated_at', 'suspended_at',
                'unsuspended_at'];
            own_triggers := '{}';
            own_views := '{}';
            copy_function := 'copy_account_epochs';
        END IF;

        copies := ARRAY(SELECT epoch || '_bigint' FROM pg_catalog.unnest(epochs) AS epoch);
        epoch_list := pg_catalog.array_to_string(epochs, ', ');
        copy_list := pg_catalog.array_to_string(copies, ', ');
        copy_trigger := '~' || copy_function;
        CONTINUE WHEN (
            SELECT atttypid = 'bigint'::regtype::oid FROM pg_attribute
            WHERE attrelid = relation::oid AND attname = epochs[1]
        );

        -- Ends an autovacuum of the table, which can take a second, before others have to wait.
        EXECUTE pg_catalog.format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE', relation);
        EXECUTE obstacles INTO obstacle
        USING relation, epochs, own_triggers, copy_trigger, own_views;

        IF obstacle IS NOT NULL THEN
            RAISE EXCEPTION 'columns of % (%) are replaced, and these would be lost: %', relation,
                epoch_list, obstacle
                USING ERRCODE = 'dependent_objects_still_exist',
                    HINT = 'Drop them, migrate, and make them again.';
        END IF;

        IF NOT EXISTS (
            SELECT FROM pg_attribute WHERE attrelid = relation::oid AND attname = copies[1]
        ) THEN
            PERFORM mailroom.lock_briefly(relation);
            -- The constraint spares SET NOT NULL the scan under an exclusive lock.
            EXECUTE pg_catalog.format(
                'ALTER TABLE %s %s, ADD CONSTRAINT %I CHECK (%s) NOT VALID',
                relation,
                (SELECT string_agg(pg_catalog.format('ADD COLUMN %I bigint', name), ', ')
                    FROM pg_catalog.unnest(copies) AS name),
                copy_function,
                (
                    SELECT string_agg(
                        pg_catalog.format('%I IS NOT NULL', attname::text || '_bigint'), ' AND '
                    )
                    FROM pg_attribute
                    WHERE attrelid = relation::oid AND attname = ANY (epochs) AND attnotnull
                )
            );
            EXECUTE pg_catalog.format(
                'CREATE FUNCTION %I() RETURNS trigger LANGUAGE plpgsql AS %L',
                copy_function,
                pg_catalog.format(
                    'BEGIN %s RETURN NEW; END;',
                    (
                        SELECT string_agg(
                            pg_catalog.format('NEW.%I := NEW.%I;', epoch || '_bigint', epoch), ' '
                        )
                        FROM pg_catalog.unnest(epochs) AS epoch
                    )
                )
            );
            EXECUTE pg_catalog.format(
                'CREATE TRIGGER %I BEFORE INSERT OR UPDATE ON %s FOR EACH ROW '
                'EXECUTE FUNCTION %I()',
                copy_trigger, relation, copy_function
            );
            -- Also for what a subscription applies.
            EXECUTE pg_catalog.format(
                'ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', relation, copy_trigger
            );
        END IF;

        COMMIT;
        lower := -9223372036854775808;
        missed := NULL;

        LOOP
            PERFORM set_config(name, 'off', true) FROM pg_catalog.unnest(unwanted_plans) AS name;
            EXECUTE pg_catalog.format('SELECT FROM %s WHERE id = $1 FOR NO KEY UPDATE', relation)
            USING missed;

            EXECUTE pg_catalog.format(
                'WITH
                page AS MATERIALIZED (
                    SELECT id, (%2$s) IS DISTINCT FROM (%3$s) AS is_wanted
                    FROM %1$s WHERE id > $1 ORDER BY id LIMIT $2
                ),
                locked AS MATERIALIZED (
                    SELECT id FROM %1$s
                    WHERE id IN (SELECT id FROM page WHERE is_wanted)
                    FOR NO KEY UPDATE SKIP LOCKED
                ),
                copied AS (
                    UPDATE %1$s AS changed SET (%2$s) = ROW (%3$s)
                    FROM locked WHERE changed.id = locked.id
                )
                SELECT max(id),
                    min(id) FILTER (WHERE is_wanted AND id NOT IN (SELECT id FROM locked))
                FROM page',
                relation, copy_list, epoch_list
            ) INTO upper, missed USING lower, batch;

            EXIT WHEN upper IS NULL;
            lower := CASE WHEN missed IS NULL THEN upper ELSE lower END;
            COMMIT;
        END LOOP;

        COMMIT;
        EXECUTE pg_catalog.format('ALTER TABLE %s VALIDATE CONSTRAINT %I', relation, copy_function);
        COMMIT;

        EXECUTE pg_catalog.format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE', relation);
        PERFORM mailroom.lock_briefly(
            VARIADIC pg_catalog.array_append(own_views::regclass[], relation)
        );
        -- Again: it took minutes to come here.
        EXECUTE obstacles INTO obstacle
        USING relation, epochs, own_triggers, copy_trigger, own_views;

        IF obstacle IS NOT NULL THEN
            RAISE EXCEPTION 'columns of % (%) are replaced, and these would be lost: %', relation,
                epoch_list, obstacle
                USING ERRCODE = 'dependent_objects_still_exist',
                    HINT = 'Drop them, migrate, and make them again.';
        END IF;

        EXECUTE pg_catalog.format('DROP TRIGGER %I ON %s', copy_trigger, relation);
        EXECUTE pg_catalog.format('DROP FUNCTION %I()', copy_function);

        FOREACH statement IN ARRAY ARRAY(
            WITH
            replaced AS (
                SELECT *, attname::text || '_bigint' AS copy,
                    pg_catalog.format('ALTER TABLE %s ALTER COLUMN %I', relation, attname) AS alter
                FROM pg_attribute
                WHERE attrelid = relation::oid AND attname = ANY (epochs)
            ),
            own AS (
                SELECT oid, tgname FROM pg_trigger WHERE tgrelid = relation::oid
                    AND tgname = ANY (own_triggers)
            ),
            views AS (
                SELECT pg_class.oid, pg_class.oid::regclass AS name, relowner::regrole AS owner
                FROM pg_class WHERE pg_class.oid = ANY (own_views::regclass[]::oid[])
            )
            SELECT listed.statement
            FROM (
                SELECT 1, pg_catalog.format('DROP TRIGGER %I ON %s', tgname, relation) FROM own
                UNION ALL
                SELECT 1, pg_catalog.format('DROP VIEW %s', name) FROM views
                UNION ALL
                SELECT 2, pg_catalog.format('ALTER TABLE %s DROP COLUMN %I', relation, attname)
                    FROM replaced
                UNION ALL
                SELECT 3, pg_catalog.format(
                    'ALTER TABLE %s RENAME COLUMN %I TO %I', relation, copy, attname
                )
                FROM replaced
                UNION ALL
                SELECT 4, alter || ' SET NOT NULL' FROM replaced WHERE attnotnull
                UNION ALL
                SELECT 4, pg_catalog.format('%s SET DEFAULT %s', alter, pg_get_expr(adbin, adrelid))
                FROM replaced JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
                UNION ALL
                SELECT 4, pg_catalog.format('%s SET STATISTICS %s', alter, attstattarget)
                FROM replaced WHERE attstattarget >= 0
                UNION ALL
                SELECT 4, pg_catalog.format(
                    '%s SET (%s)', alter, pg_catalog.array_to_string(attoptions, ', ')
                )
                    FROM replaced WHERE attoptions IS NOT NULL
                UNION ALL
                SELECT 4, pg_catalog.format('COMMENT ON COLUMN %s.%I IS %L', relation, attname,
                    col_description(attrelid, attnum::integer))
                FROM replaced
                UNION ALL
                SELECT 5, pg_catalog.format(
                    'ALTER TABLE %s DROP CONSTRAINT %I', relation, copy_function
                )
                UNION ALL
                SELECT 6, pg_get_triggerdef(oid) FROM own
                UNION ALL
                SELECT 6, pg_catalog.format('CREATE VIEW %s AS %s', name, pg_get_viewdef(oid))
                    FROM views
                UNION ALL
                SELECT 7, pg_catalog.format(
                    'COMMENT ON VIEW %s IS %L', name, obj_description(oid, 'pg_class'::name)
                )
                FROM views
                UNION ALL
                SELECT 7, pg_catalog.format('ALTER VIEW %s OWNER TO %s', name, owner) FROM views
                UNION ALL
                -- What sessions have compiled for the former types is compiled anew, by a change
                -- that is none.
                SELECT DISTINCT 8,
                    pg_catalog.format('ALTER FUNCTION %s COST %s', tgfoid::regprocedure, procost)
                FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid
                WHERE tgrelid = relation::oid
                    AND NOT tgisinternal
                    AND pg_has_role(proowner, 'USAGE')
            ) AS listed (place, statement)
            ORDER BY place
        ) LOOP
            EXECUTE statement;
        END LOOP;

        PERFORM mailroom.revoke_default_privileges();
        COMMIT;
        EXECUTE pg_catalog.format('ANALYZE %s (%s)', relation, epoch_list);
        COMMIT;
    END LOOP;

    ALTER TABLE mailroom.installation DROP COLUMN IF EXISTS adopted_after,
        DROP COLUMN IF EXISTS adopts_through;
END;
$migration$;

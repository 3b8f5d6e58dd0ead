-- no-transaction
--
-- Fault: integer seconds end on 2038-01-19 at 03:14:07 UTC; from then on no account could be
-- inserted, activated or suspended. The columns are replaced as those of tokens were, whose
-- migration says how.
--
-- Locks, with two million accounts: nobody reads or writes accounts for some milliseconds, twice;
-- the thousand rows at hand cannot be changed for less than 0.1 s.

DO $migration$
DECLARE
    relation CONSTANT regclass := 'accounts';
    epochs CONSTANT text[] := ARRAY['created_at', 'status_changed_at', 'activated_at',
        'suspended_at', 'unsuspended_at'];
    wanted_type CONSTANT regtype := 'bigint';
    former_type CONSTANT regtype := 'integer';
    -- Name of the function that keeps the columns equal, and of the constraint on the new ones.
    copy_function CONSTANT text := 'copy_account_epochs';
    -- Mailroom's triggers that name one of the columns; they are made again.
    own_triggers CONSTANT text[] := '{}';
    -- What changes together with the columns.
    functions CONSTANT text[] := ARRAY[$function$
CREATE OR REPLACE FUNCTION trg_before_account_status_change() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    changed_at bigint := extract(epoch FROM now());
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
$$
$function$];

    -- From here on the four files that replace columns are the same.
    batch CONSTANT integer := 1000;
    copies CONSTANT text[] := ARRAY(SELECT format('%s_%s', epoch, wanted_type) FROM unnest(epochs)
        AS epoch);
    former_copies CONSTANT text[] := ARRAY(SELECT format('%s_%s', epoch, former_type)
        FROM unnest(epochs) AS epoch);
    epoch_list CONSTANT text := array_to_string(epochs, ', ');
    copy_list CONSTANT text := array_to_string(copies, ', ');
    -- BEFORE triggers fire in the order of their names: this one last, when the values are what
    -- will be stored.
    copy_trigger CONSTANT text := '~' || copy_function;
    -- What would be lost with the columns $2 of table $1, but for their own defaults and
    -- constraints NOT NULL and the triggers $3; and triggers that could change a value after
    -- trigger $4 has copied it.
    obstacles CONSTANT text := $query$
        SELECT string_agg(DISTINCT obstacle, ', ')
        FROM (
            SELECT pg_describe_object(classid, objid, objsubid)
            FROM pg_depend JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid
            WHERE refclassid = 'pg_class'::regclass AND refobjid = $1 AND attname = ANY ($2)
                AND NOT (classid = 'pg_attrdef'::regclass AND EXISTS (
                    SELECT FROM pg_attrdef WHERE pg_attrdef.oid = objid AND adrelid = refobjid
                        AND adnum = refobjsubid
                ))
                AND NOT (classid = 'pg_constraint'::regclass AND EXISTS (
                    SELECT FROM pg_constraint WHERE pg_constraint.oid = objid AND contype = 'n'
                ))
                AND NOT (classid = 'pg_trigger'::regclass AND EXISTS (
                    SELECT FROM pg_trigger WHERE pg_trigger.oid = objid AND tgname = ANY ($3)
                ))
            UNION ALL
            SELECT format('privileges on column %s of table %s', attname, $1)
            FROM pg_attribute
            WHERE attrelid = $1 AND attname = ANY ($2) AND attacl IS NOT NULL
            UNION ALL
            -- Row level is 1, BEFORE 2, INSERT 4, UPDATE 16.
            SELECT format('trigger %s on table %s, which fires after %s', tgname, $1, $4)
            FROM pg_trigger
            WHERE tgrelid = $1 AND tgtype & 3 = 3 AND tgtype & 20 > 0 AND tgname > $4::name
        ) AS found (obstacle)
    $query$;
    obstacle text;
    is_done boolean;
    too_late bigint;
    lower bigint := -9223372036854775808;
    upper bigint;
    missed bigint;
    statement text;
BEGIN
    IF wanted_type = 'integer'::regtype THEN
        EXECUTE format(
            'SELECT count(*) FROM %1$s WHERE greatest(%2$s) > 2147483647 OR least(%2$s) < '
            '-2147483648', relation, epoch_list
        ) INTO too_late;

        IF too_late > 0 THEN
            RAISE EXCEPTION
                'rows of % with a time outside of what the former integer columns can hold: %',
                relation, too_late
                USING ERRCODE = 'numeric_value_out_of_range',
                    HINT = 'Integer seconds end on 2038-01-19 at 03:14:07 UTC. Give these rows '
                        'earlier times, or delete them, and migrate again.';
        END IF;
    END IF;

    PERFORM set_config('lock_timeout', '5s', true) WHERE current_setting('lock_timeout') = '0';
    -- Ends an autovacuum of the table, which can take a second, before others have to wait.
    EXECUTE format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE', relation);

    -- What the other direction began and did not complete.
    IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = relation
        AND attname = former_copies[1]) THEN
        EXECUTE format('DROP TRIGGER %I ON %s', copy_trigger, relation);
        EXECUTE format('DROP FUNCTION %I()', copy_function);

        FOREACH statement IN ARRAY former_copies LOOP
            EXECUTE format('ALTER TABLE %s DROP COLUMN %I', relation, statement);
        END LOOP;
    END IF;

    is_done := (SELECT atttypid = wanted_type FROM pg_attribute WHERE attrelid = relation
        AND attname = epochs[1]);

    IF NOT is_done THEN
        EXECUTE obstacles INTO obstacle USING relation, epochs, own_triggers, copy_trigger;

        IF obstacle IS NOT NULL THEN
            RAISE EXCEPTION 'columns of % (%) are replaced, and these would be lost: %', relation,
                epoch_list, obstacle
                USING ERRCODE = 'dependent_objects_still_exist',
                    HINT = 'Drop them, migrate, and make them again.';
        END IF;

        IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = relation
            AND attname = copies[1]) THEN
            -- The constraint spares SET NOT NULL the scan under an exclusive lock.
            EXECUTE format(
                'ALTER TABLE %s %s, ADD CONSTRAINT %I CHECK (%s) NOT VALID',
                relation,
                (SELECT string_agg(format('ADD COLUMN %I %s', name, wanted_type), ', ')
                    FROM unnest(copies) AS name),
                copy_function,
                (
                    SELECT coalesce(string_agg(format('%I IS NOT NULL',
                        format('%s_%s', attname, wanted_type)), ' AND '), 'true')
                    FROM pg_attribute
                    WHERE attrelid = relation AND attname = ANY (epochs) AND attnotnull
                )
            );
            EXECUTE format(
                'CREATE FUNCTION %I() RETURNS trigger LANGUAGE plpgsql AS %L',
                copy_function,
                format(
                    'BEGIN %s RETURN NEW; END;',
                    (
                        SELECT string_agg(format('NEW.%I := NEW.%I;',
                            format('%s_%s', epoch, wanted_type), epoch), ' ')
                        FROM unnest(epochs) AS epoch
                    )
                )
            );
            EXECUTE format(
                'CREATE TRIGGER %I BEFORE INSERT OR UPDATE ON %s FOR EACH ROW '
                'EXECUTE FUNCTION %I()',
                copy_trigger, relation, copy_function
            );
            -- Also for what a subscription applies.
            EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', relation, copy_trigger);
        END IF;
    END IF;

    COMMIT;

    WHILE NOT is_done LOOP
        -- Plans for each batch by primary key.
        PERFORM set_config(name, 'off', true)
        FROM unnest(ARRAY['enable_seqscan', 'enable_hashjoin', 'enable_mergejoin', 'jit']) AS name;
        PERFORM set_config('lock_timeout', '5s', true) WHERE current_setting('lock_timeout') = '0';
        EXECUTE format('SELECT FROM %s WHERE id = $1 FOR NO KEY UPDATE', relation) USING missed;

        EXECUTE format(
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
            SELECT max(id), min(id) FILTER (WHERE is_wanted AND id NOT IN (SELECT id FROM locked))
            FROM page',
            relation, copy_list, epoch_list
        ) INTO upper, missed USING lower, batch;

        EXIT WHEN upper IS NULL;
        lower := CASE WHEN missed IS NULL THEN upper ELSE lower END;
        COMMIT;
    END LOOP;

    COMMIT;

    IF NOT is_done THEN
        EXECUTE format('ALTER TABLE %s VALIDATE CONSTRAINT %I', relation, copy_function);
        COMMIT;

        PERFORM set_config('lock_timeout', '5s', true) WHERE current_setting('lock_timeout') = '0';
        EXECUTE format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE', relation);
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', relation);
        -- Again: it took minutes to come here.
        EXECUTE obstacles INTO obstacle USING relation, epochs, own_triggers, copy_trigger;

        IF obstacle IS NOT NULL THEN
            RAISE EXCEPTION 'columns of % (%) are replaced, and these would be lost: %', relation,
                epoch_list, obstacle
                USING ERRCODE = 'dependent_objects_still_exist',
                    HINT = 'Drop them, migrate, and make them again.';
        END IF;

        EXECUTE format('DROP TRIGGER %I ON %s', copy_trigger, relation);
        EXECUTE format('DROP FUNCTION %I()', copy_function);

        FOREACH statement IN ARRAY ARRAY(
            WITH
            replaced AS (
                SELECT *, format('%s_%s', attname, wanted_type)
                    AS copy, format('ALTER TABLE %s ALTER COLUMN %I', relation, attname) AS alter
                FROM pg_attribute
                WHERE attrelid = relation AND attname = ANY (epochs)
            ),
            own AS (
                SELECT oid, tgname FROM pg_trigger WHERE tgrelid = relation
                    AND tgname = ANY (own_triggers)
            )
            SELECT listed.statement
            FROM (
                SELECT 1, format('DROP TRIGGER %I ON %s', tgname, relation) FROM own
                UNION ALL
                SELECT 2, format('ALTER TABLE %s DROP COLUMN %I', relation, attname) FROM replaced
                UNION ALL
                SELECT 3, format('ALTER TABLE %s RENAME COLUMN %I TO %I', relation, copy, attname)
                    FROM replaced
                UNION ALL
                SELECT 4, alter || ' SET NOT NULL' FROM replaced WHERE attnotnull
                UNION ALL
                SELECT 4, format('%s SET DEFAULT %s', alter, pg_get_expr(adbin, adrelid))
                FROM replaced JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
                UNION ALL
                SELECT 4, format('%s SET STATISTICS %s', alter, attstattarget) FROM replaced
                    WHERE attstattarget >= 0
                UNION ALL
                SELECT 4, format('%s SET (%s)', alter, array_to_string(attoptions, ', '))
                    FROM replaced WHERE attoptions IS NOT NULL
                UNION ALL
                SELECT 4, format('COMMENT ON COLUMN %s.%I IS %L', relation, attname,
                    col_description(attrelid, attnum))
                FROM replaced
                UNION ALL
                SELECT 5, format('ALTER TABLE %s DROP CONSTRAINT %I', relation, copy_function)
                UNION ALL
                SELECT 6, pg_get_triggerdef(oid) FROM own
            ) AS listed (place, statement)
            ORDER BY place
        ) || functions LOOP
            EXECUTE statement;
        END LOOP;

        COMMIT;
    END IF;

    EXECUTE format('ANALYZE %s (%s)', relation, epoch_list);
END;
$migration$;

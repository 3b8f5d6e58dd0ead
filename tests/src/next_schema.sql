-- What the version after this one may do to the schema and this one has to bear
-- (docs/operate/upgrade.md): each table gets a column, each function that programs and applications
-- call an argument at its end that can be left out, there is a function more, and a newer migration
-- is recorded. The setting `test.callable` has the names of those functions, with commas.
BEGIN;

DO $$
DECLARE
    one record;
    made text;
    allowed text;
BEGIN
    FOR one IN
        SELECT pg_class.oid::regclass AS name
        FROM pg_class
        WHERE relkind = 'r'
            AND (relnamespace = 'mailroom'::regnamespace OR pg_class.oid = to_regclass('tokens'))
            AND relname NOT IN ('migrations', 'schema_migrations')
    LOOP
        EXECUTE format('ALTER TABLE %s ADD COLUMN further text DEFAULT %L', one.name, 'new');
    END LOOP;

    FOR one IN
        SELECT
            pg_proc.oid::regprocedure AS name,
            format('%s.%I', pronamespace::regnamespace, proname) AS plain_name,
            proowner,
            proacl,
            pg_get_functiondef(pg_proc.oid) AS definition,
            pg_get_function_arguments(pg_proc.oid) AS arguments
        FROM pg_proc
        WHERE pronamespace = 'mailroom'::regnamespace
            AND prokind = 'f'
            AND proname = ANY (string_to_array(current_setting('test.callable'), ','))
            -- Of those that views and other functions use the body alone is changed.
            AND NOT EXISTS (
                SELECT FROM pg_depend
                WHERE refclassid = 'pg_proc'::regclass AND refobjid = pg_proc.oid
            )
    LOOP
        made := replace(
            one.definition,
            format('%s(%s)', one.plain_name, one.arguments),
            format(
                '%s(%s)',
                one.plain_name,
                concat_ws(', ', nullif(one.arguments, ''), 'further text DEFAULT ''''')
            )
        );
        IF made = one.definition THEN
            RAISE EXCEPTION 'the arguments of % were not found', one.name;
        END IF;
        EXECUTE format('DROP FUNCTION %s', one.name);
        EXECUTE made;
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', one.plain_name);
        FOR allowed IN
            SELECT grantee::regrole::text FROM aclexplode(one.proacl)
            WHERE grantee NOT IN (0, one.proowner)
        LOOP
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', one.plain_name, allowed);
        END LOOP;
    END LOOP;
END;
$$;

CREATE FUNCTION mailroom.further() RETURNS text LANGUAGE sql BEGIN ATOMIC
    SELECT 'new';
END;

REVOKE ALL ON FUNCTION mailroom.further() FROM PUBLIC;

DO $$
BEGIN
    IF to_regclass('mailroom.migrations') IS NOT NULL THEN
        UPDATE mailroom.migrations SET version = 5;
    ELSE
        UPDATE schema_migrations SET version = 5;
    END IF;
END;
$$;

COMMIT;

-- The functions that are called from outside, in a schema of their own: bodies in standard SQL have
-- looked up what they call before anything is put beside it.
CREATE SCHEMA api;

DO $$
DECLARE
    called record;
BEGIN
    FOR called IN
        SELECT *, pg_get_function_arguments(oid) AS arguments, pg_get_function_result(oid) AS result
        FROM pg_proc
        WHERE pronamespace = 'mailroom'::regnamespace
            AND prosecdef
            AND prorettype <> 'trigger'::regtype
    LOOP
        EXECUTE format(
            'CREATE FUNCTION api.%I(%s) RETURNS %s LANGUAGE sql BEGIN ATOMIC '
            'SELECT * FROM mailroom.%I(%s); END',
            called.proname, called.arguments, called.result, called.proname,
            array_to_string(ARRAY(
                SELECT format('$%s', nth) FROM generate_series(1, called.pronargs) AS nth
            ), ', ')
        );
    END LOOP;
END;
$$;

-- Puts beside each function of the schema those that would fit an inexact call better: one for each
-- parameter and other type, and one for each number of arguments where some have defaults. Each
-- writes down its signature, which no rollback takes back, and fails.
CREATE TABLE public.overloads (number serial, signature text);
CREATE SEQUENCE public.called_overload MINVALUE 0 START 0;

CREATE FUNCTION public.plant(signature text, result text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    planted integer := nextval('public.overloads_number_seq');
BEGIN
    EXECUTE format(
        'CREATE FUNCTION %s RETURNS %s LANGUAGE plpgsql AS %L', signature, result,
        format('BEGIN PERFORM setval(''public.called_overload'', %s); '
            'RAISE EXCEPTION ''an overload was called''; END', planted)
    );
    INSERT INTO public.overloads VALUES (planted, signature);
EXCEPTION WHEN duplicate_function THEN
    NULL;
END;
$$;

DO $$
DECLARE
    original record;
    place integer;
    other text;
    parameters text[];
BEGIN
    FOR original IN
        SELECT
            proname,
            pronargs,
            pronargdefaults,
            coalesce(
                (
                    SELECT array_agg(format('%I ', name) ORDER BY nth)
                    FROM unnest(proargnames) WITH ORDINALITY AS named (name, nth)
                    WHERE nth <= pronargs
                ),
                '{}'
            ) AS names,
            ARRAY(
                SELECT format_type(type, NULL)
                FROM unnest(proargtypes) WITH ORDINALITY AS typed (type, nth)
                ORDER BY nth
            ) AS types,
            pg_get_function_result(pg_proc.oid) AS result
        FROM pg_proc
        WHERE pronamespace = 'mailroom'::regnamespace
            AND pronargs > 0
            AND prorettype <> 'trigger'::regtype
    LOOP
        FOR place IN 1..original.pronargs LOOP
            FOREACH other IN ARRAY ARRAY[
                'smallint', 'integer', 'bigint', 'numeric', 'real', 'double precision', 'text',
                'varchar', 'bpchar', 'name', 'bytea', 'boolean', 'interval', 'timestamptz',
                'timestamp', 'date', 'json', 'jsonb', 'uuid', 'oid', 'regproc', 'regprocedure',
                'regclass', 'record', 'smallint[]', 'integer[]', 'bigint[]', 'text[]', 'varchar[]',
                'uuid[]', 'tid[]', 'mailroom.outcome', 'mailroom.verdict', 'public.account_status',
                'public.token_action'
            ] LOOP
                parameters := original.types;
                parameters[place] := other;
                PERFORM public.plant(
                    format('mailroom.%I(%s)', original.proname, array_to_string(ARRAY(
                        SELECT original.names[nth] || parameters[nth]
                        FROM generate_series(1, original.pronargs) AS nth
                    ), ', ')),
                    original.result
                );
            END LOOP;
        END LOOP;
        FOR place IN original.pronargs - original.pronargdefaults .. original.pronargs - 1 LOOP
            PERFORM public.plant(
                format('mailroom.%I(%s)', original.proname, array_to_string(ARRAY(
                    SELECT original.names[nth] || original.types[nth]
                    FROM generate_series(1, place) AS nth
                ), ', ')),
                original.result
            );
        END LOOP;
    END LOOP;
END;
$$;

-- Bodies in standard SQL and views have looked up what they call when they were made: made anew,
-- they look again.
DO $$
DECLARE
    anew text;
BEGIN
    FOR anew IN
        SELECT pg_get_functiondef(oid)
        FROM pg_proc
        WHERE pronamespace = 'mailroom'::regnamespace AND prosqlbody IS NOT NULL
        UNION ALL
        SELECT format('CREATE OR REPLACE VIEW %s AS %s', oid::regclass, pg_get_viewdef(oid))
        FROM pg_class
        WHERE relnamespace = 'mailroom'::regnamespace AND relkind = 'v'
    LOOP
        EXECUTE anew;
    END LOOP;
END;
$$;

-- Puts beside PostgreSQL's operators and functions those that fit better wherever an argument has
-- not exactly PostgreSQL's type: one for each pair of types, and one for each parameter and other
-- type of a function. Each writes down that it was called, and answers as PostgreSQL's would. To be
-- executed where the search path is pg_catalog alone.
CREATE SEQUENCE public.calls;
CREATE TABLE public.called (signature text);

CREATE FUNCTION public.plant(name text, types text[], result text, answer text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog SET check_function_bodies = off AS $$
DECLARE
    signature text := format('public.%I(%s)', name, array_to_string(types, ', '));
BEGIN
    EXECUTE format(
        'CREATE FUNCTION %s RETURNS %s LANGUAGE plpgsql AS %L', signature, result,
        format(
            'BEGIN PERFORM pg_catalog.nextval(''public.calls''); '
            'INSERT INTO public.called VALUES (%L); %s END',
            signature, answer
        )
    );
    RETURN true;
EXCEPTION WHEN duplicate_function THEN
    RETURN false;
END;
$$;

-- Types that PostgreSQL compares as another one, and those of the tables of accounts, if any.
CREATE TABLE public.planted_types AS
SELECT format_type(oid, NULL) AS name,
    CASE
        WHEN typname LIKE 'int%' AND typcategory = 'N' THEN 'bigint'
        WHEN typname IN ('numeric', 'float8') THEN 'numeric'
        WHEN typname LIKE 'reg%' OR typname = 'oid' THEN 'oid'
        WHEN typcategory = 'A' THEN 'text[]'
        WHEN typname = 'timestamptz' THEN 'timestamptz'
        WHEN typname = 'interval' THEN 'interval'
        ELSE 'text'
    END AS common
FROM pg_type
WHERE oid = ANY ('{text, varchar, name, int2, int4, int8, numeric, float8, oid, regclass,
        regprocedure, regrole, regtype, timestamptz, text[], name[], int8[], oid[],
        regclass[]}'::regtype[]::oid[])
    OR typnamespace = 'public'::regnamespace AND typtype = 'e';

DO $$
DECLARE
    pair record;
    operator text;
    answer text;
    result text;
    number integer := 0;
BEGIN
    FOR pair IN
        SELECT
            first.name AS first, second.name AS second,
            CASE WHEN 'oid' IN (first.common, second.common) THEN 'oid'
                WHEN 'numeric' IN (first.common, second.common) THEN 'numeric'
                ELSE first.common END AS common,
            first.common = second.common AS is_like
        FROM public.planted_types AS first CROSS JOIN public.planted_types AS second
    LOOP
        FOREACH operator IN ARRAY ARRAY['=', '<>', '<', '>', '<=', '>=', '~', '!~', '~~', '!~~',
            '||', '+', '-', '*', '/', '%', '&', '|', '<<', '>>', '<@', '@>', '&&'] LOOP
            CONTINUE WHEN EXISTS (
                SELECT FROM pg_operator
                WHERE oprnamespace = 'pg_catalog'::regnamespace
                    AND oprname = operator
                    AND oprleft = pair.first::regtype
                    AND oprright = pair.second::regtype
            );
            CASE
                WHEN operator IN ('<@', '@>', '&&') THEN
                    CONTINUE WHEN NOT (pair.is_like AND pair.common = 'text[]');
                    result := 'boolean';
                    answer := 'RETURN $1::%1$s OPERATOR(pg_catalog.%2$s) $2::%1$s;';
                WHEN operator IN ('=', '<>', '<', '>', '<=', '>=') THEN
                    result := 'boolean';
                    answer := 'RETURN $1::%1$s OPERATOR(pg_catalog.%2$s) $2::%1$s;';
                WHEN operator IN ('~', '!~', '~~', '!~~') THEN
                    CONTINUE WHEN pair.common <> 'text';
                    result := 'boolean';
                    answer := 'RETURN $1::text OPERATOR(pg_catalog.%2$s) $2::text;';
                WHEN operator = '||' AND pair.common = 'text[]' THEN
                    result := pair.first;
                    answer := 'RETURN $1 OPERATOR(pg_catalog.||) $2;';
                WHEN operator = '||' THEN
                    result := 'text';
                    answer := 'RETURN pg_catalog.concat($1, $2);';
                WHEN operator IN ('&', '|', '<<', '>>') THEN
                    CONTINUE WHEN NOT (pair.is_like AND pair.common = 'bigint');
                    result := 'bigint';
                    answer := 'RETURN $1::bigint OPERATOR(pg_catalog.%2$s) $2::bigint;';
                ELSE
                    CONTINUE WHEN pair.common NOT IN ('bigint', 'numeric');
                    result := pair.common;
                    answer := 'RETURN $1::%1$s OPERATOR(pg_catalog.%2$s) $2::%1$s;';
            END CASE;
            number := number + 1;
            PERFORM public.plant(format('operator_%s_%s', number, operator),
                ARRAY[pair.first, pair.second], result, format(answer, pair.common, operator));
            EXECUTE format(
                'CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.%I)',
                operator, pair.first, pair.second, format('operator_%s_%s', number, operator)
            );
        END LOOP;
    END LOOP;
END;
$$;

-- The functions of these names.
CREATE FUNCTION public.plant_functions(names text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    original record;
    other text;
    place integer;
    types text[];
    call text;
BEGIN
    FOR original IN
        SELECT
            proname,
            pronargs,
            provariadic <> 0 AS is_variadic,
            proretset,
            ARRAY(SELECT format_type(type, NULL)
                FROM unnest(proargtypes) WITH ORDINALITY AS typed (type, nth)
                ORDER BY nth) AS types,
            pg_get_function_result(oid) AS result
        FROM pg_proc
        WHERE pronamespace = 'pg_catalog'::regnamespace
            AND proname = ANY (names)
            AND prokind = 'f'
            AND pronargs BETWEEN 1 AND 4
            AND prorettype <> 'internal'::regtype
            AND pg_get_function_result(oid) NOT LIKE 'TABLE%'
            AND proallargtypes IS NULL
    LOOP
        FOR place IN 1..original.pronargs LOOP
            FOR other IN
                SELECT name FROM public.planted_types WHERE common <> 'text[]' OR original.proretset
            LOOP
                types := original.types;
                types[place] := other;
                CONTINUE WHEN original.result LIKE '%anyrange%' OR EXISTS (
                    SELECT FROM unnest(types) AS type
                    WHERE type LIKE '%any%' OR type IN ('internal', 'cstring')
                );
                call := format(
                    'pg_catalog.%I(%s)',
                    original.proname,
                    array_to_string(ARRAY(
                        SELECT format(
                            CASE WHEN original.types[nth] LIKE '%%any%%' THEN '$%s' ELSE '$%s::%s'
                            END, nth, original.types[nth]
                        )
                        FROM generate_series(1, original.pronargs) AS nth
                    ), ', ')
                );
                PERFORM public.plant(
                    original.proname,
                    types,
                    CASE
                        WHEN original.result = 'SETOF anyelement'
                            THEN 'SETOF ' || replace(other, '[]', '')
                        WHEN original.result IN ('anyarray', 'anycompatiblearray') THEN other
                        WHEN original.result = 'anyelement' THEN replace(other, '[]', '')
                        ELSE original.result
                    END,
                    CASE WHEN original.proretset THEN format('RETURN QUERY SELECT %s;', call)
                        WHEN original.result = 'void' THEN format('PERFORM %s;', call)
                        ELSE format('RETURN %s;', call) END
                );
            END LOOP;
        END LOOP;
    END LOOP;
END;
$$;

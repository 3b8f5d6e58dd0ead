-- What a client can leave in a session: a schema of its own first on the search path, with the same
-- operators, functions and a type as PostgreSQL has, tables with the names of Mailroom's, and
-- settings. Each operator and function notes as whom it was called, and answers as PostgreSQL's.
CREATE TABLE shop.loot (who pg_catalog.text);
GRANT USAGE ON SCHEMA shop TO PUBLIC;
GRANT INSERT ON shop.loot TO PUBLIC;

DO $$
DECLARE
    original record;
    kept CONSTANT oid[] := '{text, name, varchar, bpchar, int2, int4, int8, numeric, float8, bool,
        bytea, uuid, oid, regclass, regprocedure, timestamptz, interval, jsonb,
        text[], int8[], int2[], oid[]}'::regtype[];
    body CONSTANT text := 'BEGIN INSERT INTO shop.loot VALUES (current_user); RETURN %s; END';
BEGIN
    FOR original IN
        SELECT
            row_number() OVER () AS number, oprname AS name, oprresult::regtype AS result,
            oprleft::regtype AS left, oprright::regtype AS right
        FROM pg_operator
        WHERE oprkind = 'b' AND oprnamespace = 'pg_catalog'::regnamespace
            AND oprleft = ANY (kept) AND oprright = ANY (kept) AND oprresult = ANY (kept)
    LOOP
        EXECUTE format(
            'CREATE FUNCTION shop.operator_%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS %L',
            original.number, original.left, original.right, original.result,
            format(body, format('$1 OPERATOR(pg_catalog.%s) $2', original.name))
        );
        EXECUTE format(
            'CREATE OPERATOR shop.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = shop.operator_%s)',
            original.name, original.left, original.right, original.number
        );
    END LOOP;

    FOR original IN
        SELECT
            proname AS name, prorettype::regtype AS result,
            pg_get_function_identity_arguments(oid) AS arguments,
            ARRAY(SELECT '$' || nth FROM generate_series(1, pronargs) AS nth) AS numbers
        FROM pg_proc
        WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f' AND NOT proretset
            AND provariadic = 0 AND pronargs <= 4 AND proallargtypes IS NULL
            AND prorettype = ANY (kept) AND proargtypes::oid[] <@ kept
    LOOP
        EXECUTE format(
            'CREATE FUNCTION shop.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L',
            original.name, original.arguments, original.result,
            format(body, format('pg_catalog.%I(%s)', original.name,
                array_to_string(original.numbers, ', ')))
        );
    END LOOP;
END;
$$;

CREATE FUNCTION shop.keeps(pg_catalog.text) RETURNS boolean LANGUAGE plpgsql
AS 'BEGIN INSERT INTO shop.loot VALUES (current_user); RETURN true; END';
CREATE DOMAIN shop.text AS pg_catalog.text CHECK (shop.keeps(VALUE));

CREATE TEMPORARY TABLE actions (number smallint, name pg_catalog.text);
CREATE TEMPORARY TABLE issued_tokens (id bigint, secret bytea);
CREATE TEMPORARY TABLE queue (token bigint, secret bytea);
CREATE TEMPORARY TABLE browser_codes (binding bytea, code pg_catalog.text);
PREPARE s0 AS SELECT 1;

SET search_path = shop, pg_catalog;
SET bytea_output = 'escape';
SET quote_all_identifiers = on;
SET transform_null_equals = on;
SET extra_float_digits = -15;
SET enable_indexscan = off;

-- Which schemas have the functions $1 (named with their schema) or tables $2, and what this session
-- may do with them: a row for each object and schema, and one for each object that no schema has.
-- Visible ones come first.
SELECT
    current_user::text,
    current_setting('search_path'),
    wanted.name,
    quote_ident(pg_namespace.nspname::text),
    -- current_schemas() leaves out schemas on which the right USAGE is missing.
    coalesce(wanted.is_function OR pg_namespace.nspname = ANY (current_schemas(false)), false)
        AS is_on_path,
    coalesce(has_schema_privilege(pg_namespace.oid, 'USAGE'), false),
    coalesce(found.is_allowed, false)
FROM (
    SELECT name, true AS is_function FROM pg_catalog.unnest($1::text[]) AS name
    UNION ALL
    SELECT name, false FROM pg_catalog.unnest($2::text[]) AS name
) AS wanted
LEFT JOIN LATERAL (
    SELECT pronamespace AS home, has_function_privilege(oid, 'EXECUTE') AS is_allowed
    FROM pg_proc
    WHERE wanted.is_function
        AND proname = split_part(wanted.name, '.', 2)
        AND pronamespace = (SELECT oid FROM pg_namespace
            WHERE nspname = split_part(wanted.name, '.', 1))
    UNION ALL
    -- The cursor is moved; all else is only read.
    SELECT
        relnamespace,
        has_any_column_privilege(oid, 'SELECT') AND (relname <> 'jobs'
            OR has_any_column_privilege(oid, 'UPDATE'))
    FROM pg_class
    WHERE NOT wanted.is_function AND relname = wanted.name AND relkind IN ('r', 'p')
) AS found ON true
LEFT JOIN pg_namespace ON pg_namespace.oid = found.home
ORDER BY is_on_path DESC, pg_namespace.nspname, wanted.name

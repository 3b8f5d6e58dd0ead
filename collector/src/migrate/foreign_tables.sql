-- Up to three tables that are neither the server's, an extension's, this session's own nor the
-- history table $2 of schema $1, and how many there are.
WITH foreign_tables AS (
    SELECT pg_catalog.format('%I.%I', nspname, relname) AS name
    FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'p')
        AND NOT relispartition
        AND relpersistence <> 't'
        AND nspname <> 'information_schema'
        AND nspname !~ '^pg_'::text
        AND NOT (nspname = $1::text AND relname = $2::text)
        AND NOT EXISTS (
            SELECT FROM pg_depend
            WHERE classid = 'pg_class'::regclass::oid AND objid = pg_class.oid AND deptype = 'e'
        )
)
SELECT (SELECT string_agg(name, ', ' ORDER BY name)
    FROM (SELECT name FROM foreign_tables ORDER BY name LIMIT 3) AS first),
    (SELECT count(*) FROM foreign_tables)

-- The schema for the tables ($3, or the first of the search path); the schema of history table $2
-- ($1, or the same); that table's quoted name; the current schema; whether schema mailroom has an
-- installation without accounts, or any; and another schema that has an installation.
SELECT
    home,
    table_home,
    pg_catalog.format('%I.%I', coalesce(table_home, ''), $2::text),
    current_schema()::text,
    to_regclass('mailroom.migrations') IS NOT NULL,
    to_regclass('mailroom.installation') IS NOT NULL,
    (
        SELECT min(nspname::text)
        FROM pg_class AS own JOIN pg_class AS other USING (relnamespace) JOIN pg_namespace
            ON pg_namespace.oid = relnamespace
        WHERE own.relname = 'installation' AND other.relname = 'issued_tokens'
            AND NOT nspname = 'mailroom'
    )
FROM coalesce($3::text, current_schema()::text) AS home, coalesce($1::text, home) AS table_home

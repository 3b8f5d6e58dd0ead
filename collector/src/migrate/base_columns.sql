-- The first column that every version of Mailroom's schema has and schema $1 lacks or has with
-- another type.
WITH
-- The columns whose types no migration changes and everything relies on.
expected (table_name, column_name, type_name) AS (
    VALUES
        ('accounts', 'id', 'bigint'),
        ('accounts', 'email', 'character varying(254)'),
        ('accounts', 'login', 'character varying(254)'),
        ('accounts', 'status', 'account_status'),
        ('tokens', 'id', 'bigint'),
        ('tokens', 'action', 'token_action'),
        ('tokens', 'secret', 'bytea'),
        ('tokens', 'code', 'character varying(5)'),
        ('tokens', 'account', 'bigint'),
        ('jobs', 'job_type', 'job_type'),
        ('jobs', 'last_seq', 'bigint')
),
-- What the schema has.
found AS (
    SELECT relname, attname, format_type(atttypid, atttypmod) AS type_name
    FROM pg_attribute
        JOIN pg_class ON pg_class.oid = attrelid
        JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = $1 AND relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped
)
SELECT
    expected.table_name || '.' || expected.column_name AS column_name,
    expected.type_name AS expected,
    found.type_name AS found
FROM expected LEFT JOIN found ON relname = expected.table_name AND attname = expected.column_name
WHERE found.type_name IS DISTINCT FROM expected.type_name
    -- The last migration drops them.
    AND NOT (
        expected.column_name IN ('secret', 'code')
        AND EXISTS (
            SELECT FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace
            WHERE nspname = 'mailroom' AND proname = 'trg_after_token_changed'
        )
    )
ORDER BY 1
LIMIT 1

-- What the migrations need of the server and of this role. Reads catalogs only.
WITH home AS (
    -- Null for the schema mailroom before it is made.
    SELECT (SELECT oid FROM pg_namespace WHERE nspname = $2) AS oid
)
SELECT
    current_user::text AS role,
    coalesce(has_schema_privilege(home.oid, 'CREATE'), true) AS creates,
    -- Or has got it from somebody who may.
    has_database_privilege(current_database()::text, 'CREATE')
        OR EXISTS (SELECT FROM pg_namespace WHERE nspname = $3 AND pg_has_role(nspowner, 'USAGE'))
        AS creates_schemas,
    quote_ident(current_database()::text) AS database,
    -- Whose tables the migrations change.
    (
        SELECT string_agg(relname::text, ', ' ORDER BY relname)
        FROM pg_class
        WHERE relnamespace = home.oid AND relname = ANY ($1::text[])
            AND NOT pg_has_role(relowner, 'USAGE')
    ) AS foreign_tables,
    -- Whether what is to be the schema of Mailroom has something else.
    EXISTS (
        SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname = $3 AND relkind IN ('r', 'p', 'v', 'm', 'f') AND relname <> $4
    ) AS is_used,
    -- Where it is, or where Heroku will have it, if that is not on the search path.
    coalesce(
        (SELECT quote_ident(nspname::text) FROM pg_extension JOIN pg_namespace
            ON pg_namespace.oid = extnamespace WHERE extname = 'pgcrypto'),
        (SELECT nspname::text FROM pg_namespace WHERE nspname = 'heroku_ext'
            AND nspname <> ALL (current_schemas(false)))
    ) AS pgcrypto_schema,
    EXISTS (SELECT FROM pg_proc WHERE proname = 'gen_random_bytes' AND pg_function_is_visible(oid))
        AS has_random_bytes,
    EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pgcrypto') AS is_available,
    -- A trusted extension takes only this right.
    (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
        OR (
            has_database_privilege(current_database()::text, 'CREATE')
            AND EXISTS (SELECT FROM pg_available_extension_versions WHERE name = 'pgcrypto'
                AND trusted)
        ) AS extends
FROM home

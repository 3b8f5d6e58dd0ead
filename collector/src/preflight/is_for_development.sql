-- Whether the comment on the schema begins with the mark; false without a schema.
SELECT coalesce((
    SELECT pg_catalog.starts_with(
        pg_catalog.obj_description(oid, 'pg_namespace'::name), 'For development:'::text
    )
    FROM pg_catalog.pg_namespace WHERE nspname = 'mailroom'
), false)

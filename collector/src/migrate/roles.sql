-- Which functions the schema has; which of the roles $1 exist, which of them have more rights than
-- any of Mailroom's may, and which have rights in another database; and the schema of accounts, if
-- they are Mailroom's, with its tables and their sequences.
SELECT
    ARRAY(
        SELECT DISTINCT proname::text
        FROM pg_catalog.pg_proc JOIN pg_catalog.pg_namespace ON pg_namespace.oid = pronamespace
        WHERE nspname = 'mailroom'
    ),
    ARRAY(
        SELECT rolname::text FROM pg_catalog.pg_roles WHERE rolname::text = ANY ($1::text[])
    ),
    ARRAY(
        SELECT rolname::text FROM pg_catalog.pg_roles
        WHERE rolname::text = ANY ($1::text[])
            AND (
                rolsuper OR rolbypassrls OR rolreplication OR rolcreaterole OR rolcreatedb
                OR rolcanlogin
            )
    ),
    ARRAY(
        SELECT DISTINCT rolname::text
        FROM pg_catalog.pg_shdepend JOIN pg_catalog.pg_roles ON pg_roles.oid = refobjid
        WHERE refclassid = 'pg_catalog.pg_authid'::regclass::oid
            AND dbid <> 0::oid
            AND dbid <> (
                SELECT oid FROM pg_catalog.pg_database
                WHERE datname = pg_catalog.current_database()
            )
            AND rolname::text = ANY ($1::text[])
    ),
    (
        SELECT pg_catalog.quote_ident(nspname::text)
        FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
        WHERE pg_class.oid = pg_catalog.to_regclass('accounts')::oid
            AND pg_catalog.to_regclass('mailroom.adopted_accounts') IS NOT NULL
    ),
    ARRAY(
        SELECT pg_catalog.format(
            '%s %I.%I', CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, nspname, relname
        )
        FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
        CROSS JOIN LATERAL (
            SELECT ARRAY[
                pg_catalog.to_regclass('accounts')::oid, pg_catalog.to_regclass('tokens')::oid
            ]
        ) AS own (tables)
        WHERE pg_catalog.to_regclass('mailroom.adopted_accounts') IS NOT NULL
            AND (
                pg_class.oid = ANY (tables)
                OR relkind = 'S' AND EXISTS (
                    SELECT FROM pg_catalog.pg_depend
                    WHERE classid = 'pg_catalog.pg_class'::regclass::oid AND objid = pg_class.oid
                        AND refobjid = ANY (tables)
                )
            )
        ORDER BY pg_class.oid
    )

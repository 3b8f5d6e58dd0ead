-- Which functions the schema has; which of the roles $1 exist, and which of them have more rights
-- than any of Mailroom's may; and the schema of accounts, if they are Mailroom's.
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
            AND (rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolcanlogin)
    ),
    (
        SELECT pg_catalog.quote_ident(nspname::text)
        FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
        WHERE pg_class.oid = pg_catalog.to_regclass('accounts')
            AND pg_catalog.to_regclass('mailroom.adopted_accounts') IS NOT NULL
    )

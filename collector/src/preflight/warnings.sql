-- What keeps tokens from being made or sent without an error, in sentences. Locks nothing.
WITH
-- The queue's functions read with the rights of their owner; a cursor reads with its own.
reader AS (
    SELECT oid, rolname, rolsuper OR rolbypassrls AS sees_all
    FROM pg_roles
    WHERE oid = coalesce(
        (
            SELECT proowner FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace
            WHERE nspname = 'mailroom' AND proname = 'claim'
            LIMIT 1
        ),
        (SELECT oid FROM pg_roles WHERE rolname = current_user)
    )
),
-- The tables that are read: where Mailroom was installed without accounts, other tables are
-- somebody else's.
tables AS (
    SELECT pg_class.oid, relrowsecurity, relforcerowsecurity, relowner
    FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'p')
        AND (
            nspname = 'mailroom'
            OR pg_class.oid IN (to_regclass('accounts'), to_regclass('tokens'))
                AND NOT EXISTS (
                    SELECT FROM pg_class AS own JOIN pg_namespace AS home
                        ON home.oid = own.relnamespace
                    WHERE home.nspname = 'mailroom' AND own.relname = 'migrations'
                )
        )
),
-- Functions that the documents give to somebody.
documented (names) AS (
    VALUES (ARRAY[
        'settle', 'release', 'claim', 'list_actions', 'heartbeat', 'sweep', 'peek',
        'prune_attempts',
        'prune_dead_letters', 'prune_tokens', 'prune_account_tokens', 'enqueue', 'redeem',
        'browser_code',
        'cancel', 'cancel_subject', 'recheck', 'request', 'suppress', 'lift_suppression', 'retry',
        'retry_all', 'discard', 'discard_all', 'status', 'history', 'trace', 'bind', 'forget',
        'export_subject'
    ])
),
-- Rights that no document gives: default privileges and restored dumps without privileges do.
excess AS (
    SELECT
        grantee,
        'functions of the schema ' || nspname AS place,
        -- Of a role each by its name: it may have documented ones beside them.
        CASE grantee
            WHEN 0 THEN format('ALL ROUTINES IN SCHEMA %I', nspname)
            ELSE 'ROUTINE ' || pg_proc.oid::regprocedure::text
        END AS objects
    FROM pg_proc
    JOIN pg_namespace ON pg_namespace.oid = pronamespace
    CROSS JOIN documented
    CROSS JOIN LATERAL aclexplode(coalesce(proacl, acldefault('f', proowner)))
    WHERE nspname = 'mailroom'
        AND grantee <> proowner
        AND CASE grantee WHEN 0 THEN prosecdef ELSE proname <> ALL (documented.names) END
    UNION ALL
    SELECT
        grantee,
        'tables of the schema ' || nspname,
        CASE grantee
            WHEN 0 THEN format('ALL TABLES IN SCHEMA %I', nspname)
            ELSE pg_class.oid::regclass::text
        END
    FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
    CROSS JOIN LATERAL aclexplode(relacl)
    WHERE nspname = 'mailroom'
        AND grantee <> relowner
        AND NOT (relkind = 'v' AND privilege_type = 'SELECT' AND grantee <> 0)
    UNION ALL
    -- An application of the base schema has rights there, but not all.
    SELECT grantee, relname, format('%I', relname)
    FROM tables
    JOIN pg_class USING (oid)
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
    CROSS JOIN LATERAL aclexplode(relacl)
    WHERE NOT nspname = 'mailroom'
        AND grantee <> pg_class.relowner
        AND (grantee = 0 OR privilege_type = 'TRUNCATE')
),
-- Triggers that replicated rows do not fire, because they are enabled for the origin only;
-- statement triggers never do.
silent AS (
    SELECT
        tgrelid::regclass::text AS relation,
        tgname,
        CASE tgname WHEN 'after_account_replicated' THEN 'REPLICA' ELSE 'ALWAYS' END AS how
    FROM pg_trigger JOIN tables ON tables.oid = tgrelid
    WHERE NOT tgisinternal
        AND CASE tgname
            WHEN 'after_account_insert' THEN false
            WHEN 'after_account_replicated' THEN tgenabled IN ('D', 'O')
            ELSE tgenabled = 'O'
        END
        AND EXISTS (SELECT FROM pg_subscription_rel WHERE srrelid = to_regclass('accounts'))
)
SELECT format(
    'row-level security binds the role %I, with whose rights the table %s is read: tokens whose '
    'rows a policy hides are never sent; ALTER ROLE %I BYPASSRLS, or ALTER TABLE %s NO FORCE ROW '
    'LEVEL SECURITY as its owner',
    rolname, tables.oid::regclass, rolname, tables.oid::regclass
)
FROM tables CROSS JOIN reader
WHERE relrowsecurity
    AND NOT sees_all
    AND (relforcerowsecurity OR NOT pg_has_role(reader.oid, relowner, 'USAGE'))
UNION ALL
SELECT format(
    'the table accounts is filled by logical replication, for which triggers do not fire: '
    'replicated accounts get no token; %s',
    string_agg(format('ALTER TABLE %s ENABLE %s TRIGGER %I', relation, how, tgname), '; '
        ORDER BY relation, tgname)
)
FROM silent
HAVING count(*) > 0
UNION ALL
SELECT format(
    '%s has rights on %s that no document gives, '
    'perhaps by default privileges or a restored dump; %s',
    holder, string_agg(DISTINCT place, ', '), string_agg(DISTINCT mend, '; ')
)
FROM excess
CROSS JOIN LATERAL (
    SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS role
) AS named
CROSS JOIN LATERAL (
    SELECT
        CASE grantee WHEN 0 THEN 'everybody' ELSE 'the role ' || role END AS holder,
        format('REVOKE ALL ON %s FROM %s', objects, role) AS mend
) AS said
GROUP BY holder

-- What keeps tokens from being made or sent without an error, and rights that are missing or that
-- no document gives, in sentences. Locks nothing.
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
            OR pg_class.oid IN (to_regclass('accounts')::oid, to_regclass('tokens')::oid)
                AND NOT EXISTS (
                    SELECT FROM pg_class AS own JOIN pg_namespace AS home
                        ON home.oid = own.relnamespace
                    WHERE home.nspname = 'mailroom' AND own.relname = 'migrations'
                )
        )
),
-- The tables of the base schema, the record of its migrations and the sequences of both, each with
-- the rights that an application or a cursor may have. A product's own table schema_migrations has
-- another shape or another owner.
base (oid, allowed) AS (
    SELECT
        pg_class.oid,
        CASE
            WHEN relname = 'jobs' THEN ARRAY['SELECT', 'UPDATE']
            WHEN relname = 'schema_migrations' THEN ARRAY['SELECT']
            WHEN relkind = 'S' THEN ARRAY['SELECT', 'USAGE']
            -- A product's own tables refer to accounts.
            ELSE ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'REFERENCES']
        END
    FROM pg_class
    WHERE relnamespace IN (
            SELECT relnamespace FROM tables JOIN pg_class USING (oid)
            JOIN pg_namespace ON pg_namespace.oid = relnamespace
            WHERE NOT nspname = 'mailroom'
        )
        AND (
            relname IN ('accounts', 'tokens', 'jobs') AND relkind IN ('r', 'p')
            OR relname = 'schema_migrations'
                AND relkind = 'r'
                AND relowner IN (SELECT oid FROM reader)
                AND (
                    SELECT pg_catalog.array_agg(
                        pg_catalog.format('%s %s', attname, atttypid::regtype) ORDER BY attname
                    )
                    FROM pg_attribute
                    WHERE attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
                ) OPERATOR(pg_catalog.=) ARRAY['dirty boolean', 'version bigint']
            OR relkind = 'S' AND EXISTS (
                SELECT FROM pg_depend JOIN tables ON tables.oid = refobjid
                WHERE classid = 'pg_class'::regclass::oid AND objid = pg_class.oid
            )
        )
),
-- The sets of functions that the documents give a role each. Functions of two sets are more than
-- both: whoever claims mails and redeems their tokens takes over accounts.
documented (role, names) AS (
    SELECT
        key,
        ARRAY(
            SELECT json_array_elements_text(value -> 'functions'::text)
            UNION ALL
            SELECT json_array_elements_text(value -> 'optional'::text)
        )
    FROM json_each($1::text::json)
),
-- The views that they give to a role.
readable (view) AS (
    SELECT json_array_elements_text(value -> 'views'::text) FROM json_each($1::text::json)
),
-- Each right that somebody has on an object, also on columns of it. Functions that run with the
-- rights of whoever calls them give none.
rights (kind, oid, name, nspname, owner, grantee, privilege, is_grantable) AS (
    SELECT
        'function', pg_proc.oid, proname::text, nspname, proowner, grantee, privilege_type,
        is_grantable
    FROM pg_proc
    JOIN pg_namespace ON pg_namespace.oid = pronamespace
    CROSS JOIN LATERAL aclexplode(coalesce(proacl, pg_catalog.acldefault('f'::"char", proowner)))
    WHERE nspname = 'mailroom' AND prosecdef
    UNION ALL
    -- Whoever may execute them attaches them to a table of their own, whose rows they believe.
    SELECT
        'trigger', pg_proc.oid, proname::text, nspname, proowner, grantee, privilege_type,
        is_grantable
    FROM pg_proc
    JOIN pg_namespace ON pg_namespace.oid = pronamespace
    CROSS JOIN LATERAL aclexplode(coalesce(proacl, pg_catalog.acldefault('f'::"char", proowner)))
    WHERE NOT nspname = 'mailroom'
        AND prosecdef
        AND prorettype = 'trigger'::regtype::oid
        AND (
            prosrc LIKE '%mailroom.%'
            OR EXISTS (SELECT FROM pg_trigger JOIN tables ON tables.oid = tgrelid
                WHERE tgfoid = pg_proc.oid)
        )
    UNION ALL
    SELECT
        CASE WHEN relkind = 'S' THEN 'sequence' ELSE 'table' END, pg_class.oid, relname::text,
        nspname, relowner, grantee, privilege_type, is_grantable
    FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
    CROSS JOIN LATERAL (
        SELECT relacl
        UNION ALL
        SELECT attacl FROM pg_attribute WHERE attrelid = pg_class.oid AND attacl IS NOT NULL
    ) AS on_relation (acl)
    CROSS JOIN LATERAL aclexplode(acl)
    WHERE nspname = 'mailroom' OR pg_class.oid IN (SELECT oid FROM base)
    UNION ALL
    SELECT
        'schema', pg_namespace.oid, nspname::text, nspname, nspowner, grantee, privilege_type,
        is_grantable
    FROM pg_namespace
    CROSS JOIN LATERAL aclexplode(nspacl)
    WHERE nspname = 'mailroom'
),
-- Those of others than the owner: whoever can become the owner has all of them in any case.
others AS (
    SELECT * FROM rights
    WHERE CASE grantee WHEN 0::oid THEN true ELSE NOT pg_has_role(grantee, owner, 'MEMBER') END
),
-- Rights that no document gives: default privileges and restored dumps without privileges do. What
-- is taken back is a right by its name, or ALL where no right on the objects is documented; of a
-- documented right, the option to grant it.
excess (grantee, place, privilege, is_option, taken, objects, is_grantable) AS (
    SELECT
        grantee,
        pg_catalog.format('functions of the schema %s', nspname),
        'EXECUTE',
        false,
        'ALL',
        pg_catalog.format('ALL ROUTINES IN SCHEMA %I', nspname),
        bool_or(is_grantable)
    FROM others
    WHERE kind = 'function'
    GROUP BY grantee, nspname
    HAVING grantee = 0::oid
        OR bool_or(is_grantable)
        OR NOT EXISTS (
            SELECT FROM documented
            WHERE pg_catalog.array_agg(others.name) OPERATOR(pg_catalog.<@) documented.names
        )
    UNION ALL
    SELECT
        grantee,
        pg_catalog.format('tables of the schema %s', nspname),
        privilege,
        grantee <> 0::oid AND is_readable AND privilege = 'SELECT',
        CASE WHEN grantee <> 0::oid AND is_readable THEN privilege ELSE 'ALL' END,
        CASE
            WHEN grantee = 0::oid
                THEN pg_catalog.format('ALL %sS IN SCHEMA %I', upper(kind), nspname)
            ELSE pg_catalog.format(
                '%s%s', CASE kind WHEN 'sequence' THEN 'SEQUENCE ' END, oid::regclass
            )
        END,
        is_grantable
    FROM others
    CROSS JOIN LATERAL (
        SELECT name IN (SELECT readable.view FROM readable)
    ) AS view (is_readable)
    WHERE kind IN ('table', 'sequence')
        AND nspname = 'mailroom'
        AND NOT (is_readable AND privilege = 'SELECT' AND grantee <> 0::oid AND NOT is_grantable)
    UNION ALL
    -- An application of the base schema has rights there, but not all.
    SELECT
        grantee,
        name,
        privilege,
        grantee <> 0::oid AND privilege = ANY (allowed),
        CASE grantee WHEN 0::oid THEN 'ALL' ELSE privilege END,
        pg_catalog.format('%s%s', CASE kind WHEN 'sequence' THEN 'SEQUENCE ' END, oid::regclass),
        is_grantable
    FROM others JOIN base USING (oid)
    WHERE grantee = 0::oid OR is_grantable OR privilege <> ALL (allowed)
    UNION ALL
    SELECT
        grantee, pg_catalog.format('trigger functions of the schema %s', nspname), privilege,
        false, 'ALL',
        pg_catalog.format('ROUTINE %s', oid::regprocedure), is_grantable
    FROM others
    WHERE kind = 'trigger'
    UNION ALL
    -- What somebody puts beside the functions can be called in their place.
    SELECT
        grantee, pg_catalog.format('the schema %s', nspname), privilege, false, privilege,
        pg_catalog.format('SCHEMA %I', nspname), is_grantable
    FROM others
    WHERE kind = 'schema' AND privilege = 'CREATE'
),
-- The same, for each role: which rights it has on what, and the statements that end them.
intruders (grantee, holder, role, rights) AS (
    SELECT
        grantee,
        CASE grantee WHEN 0::oid THEN 'everybody' ELSE 'the role ' || grantee::regrole::text END,
        CASE grantee WHEN 0::oid THEN 'PUBLIC' ELSE grantee::regrole::text END,
        string_agg(on_place, ', and ' ORDER BY place)
    FROM (
        SELECT
            grantee, place,
            pg_catalog.format('%s on %s', string_agg(DISTINCT
                CASE WHEN is_option THEN 'the option to grant ' ELSE '' END || privilege, ', '),
                place)
        FROM excess
        GROUP BY grantee, place
    ) AS placed (grantee, place, on_place)
    GROUP BY grantee
),
revocations (grantee, mend) AS (
    SELECT
        grantee,
        -- Also what was granted on.
        pg_catalog.format('REVOKE %s%s ON %s FROM %s%s',
            CASE WHEN is_option THEN 'GRANT OPTION FOR ' END,
            string_agg(DISTINCT taken, ', '), objects, role,
            CASE WHEN bool_or(is_grantable) THEN ' CASCADE' END)
    FROM excess JOIN intruders USING (grantee)
    GROUP BY grantee, objects, is_option, role
),
-- Logins that have two roles, by which they claim mails and redeem their tokens, also where they
-- have to become one of them first. One role with both is named above.
takeovers (login, roles) AS (
    SELECT called.oid, string_agg(DISTINCT grantee::regrole::text, ' and ')
    FROM others JOIN pg_roles AS called ON pg_has_role(called.oid, grantee, 'MEMBER')
    WHERE kind = 'function'
        AND name IN ('claim', 'redeem')
        AND grantee <> 0::oid
        AND rolcanlogin
        AND NOT rolsuper
        AND NOT pg_has_role(called.oid, owner, 'MEMBER')
    GROUP BY called.oid
    HAVING pg_catalog.count(DISTINCT name) > 1 AND pg_catalog.count(DISTINCT grantee) > 1
),
-- The schema, if it is another's, and functions of others in it, which can fit a call better than
-- Mailroom's. A superuser needs none of that. Only what stands beside a function of this name is
-- to be dropped: another one may be Mailroom's own, whose tables alone were handed over.
foreign_things (intruder, installed_by, thing, mend) AS (
    SELECT owner, relowner, thing, mend
    FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
    CROSS JOIN LATERAL (
        SELECT
            nspowner, pg_catalog.format('the schema %I', nspname),
            pg_catalog.format('ALTER SCHEMA %I OWNER TO %s', nspname, relowner::regrole)
        UNION ALL
        SELECT
            proowner, pg_catalog.format('the routine %s', pg_proc.oid::regprocedure),
            CASE
                WHEN EXISTS (
                    SELECT FROM pg_proc AS beside
                    WHERE beside.pronamespace = pg_proc.pronamespace
                        AND beside.proname = pg_proc.proname
                        AND beside.proowner = relowner
                )
                THEN pg_catalog.format('DROP ROUTINE %s', pg_proc.oid::regprocedure)
                ELSE pg_catalog.format(
                    'if a fresh installation has the routine %1$s with the same body, ALTER '
                    'ROUTINE %1$s OWNER TO %2$s',
                    pg_proc.oid::regprocedure, relowner::regrole
                )
            END
        FROM pg_proc
        WHERE pronamespace = pg_namespace.oid
    ) AS owned (owner, thing, mend)
    JOIN pg_roles AS installer ON installer.oid = relowner
    JOIN pg_roles AS other ON other.oid = owned.owner
    WHERE nspname = 'mailroom'
        AND relname = 'queue'
        AND NOT other.rolsuper
        AND owned.owner <> relowner
        AND (installer.rolsuper OR NOT pg_has_role(relowner, owned.owner, 'USAGE'))
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
        AND EXISTS (SELECT FROM pg_subscription_rel WHERE srrelid = to_regclass('accounts')::oid)
)
SELECT pg_catalog.format(
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
SELECT pg_catalog.format(
    'the table accounts is filled by logical replication, for which triggers do not fire: '
    'replicated accounts get no token; %s',
    string_agg(pg_catalog.format('ALTER TABLE %s ENABLE %s TRIGGER %I', relation, how, tgname), '; '
        ORDER BY relation, tgname)
)
FROM silent
HAVING count(*) > 0
UNION ALL
SELECT pg_catalog.format(
    'the role %s owns %s, and so can have its own functions called with the rights of the role '
    '%s; %s',
    intruder::regrole, string_agg(thing, ', ' ORDER BY thing), installed_by::regrole,
    string_agg(mend, '; ' ORDER BY mend)
)
FROM foreign_things
GROUP BY intruder, installed_by
UNION ALL
SELECT pg_catalog.format(
    '%s has rights that no document gives%s: %s, '
    'perhaps by default privileges or a restored dump%s%s; %s',
    holder,
    CASE WHEN grantee <> 0::oid AND has_functions THEN ' one role' END,
    rights,
    -- What it needs is taken back, too.
    CASE WHEN grantee <> 0::oid AND has_functions THEN
        ' (afterwards grant it the documented roles that it needs, such as application)'
    END,
    -- Who reads all tokens is for whoever knows the role to judge.
    CASE WHEN has_base THEN pg_catalog.format(
        ' (on accounts and tokens an application of the base schema may have SELECT, INSERT, '
        'UPDATE, DELETE and REFERENCES, and USAGE on their sequences, and a collector of the queue '
        'cursor SELECT, also on jobs with UPDATE: %s)',
        CASE grantee
            WHEN 0::oid THEN 'afterwards grant that role by role'
            ELSE pg_catalog.format(
                '%s keeps what it has of that, and if it is neither of the two, take all by '
                'REVOKE ALL ON %s FROM %s', role, tables_of_base, role
            )
        END
    ) END,
    mends
)
FROM intruders
JOIN (
    SELECT grantee, string_agg(mend, '; ' ORDER BY mend) FROM revocations GROUP BY grantee
) AS mended (grantee, mends) USING (grantee)
JOIN (
    SELECT
        grantee,
        bool_or(objects LIKE 'ALL ROUTINES%'),
        bool_or(place IN ('accounts', 'tokens', 'jobs'))
    FROM excess
    GROUP BY grantee
) AS concerned (grantee, has_functions, has_base) USING (grantee)
CROSS JOIN (
    SELECT string_agg(oid::regclass::text, ', ' ORDER BY oid::regclass::text)
    FROM base JOIN pg_class USING (oid)
    WHERE relname IN ('accounts', 'tokens', 'jobs')
) AS own (tables_of_base)
UNION ALL
SELECT pg_catalog.format(
    'the role %s has %s, and so claims mails and redeems their tokens: whoever logs in as it takes '
    'over accounts; give collectors and applications a login each',
    login::regrole, roles
)
FROM takeovers
UNION ALL
SELECT pg_catalog.format(
    'the role%s %s without the right USAGE on the schema %s can call none of its functions, '
    'perhaps because a dump was restored without privileges; GRANT USAGE ON SCHEMA %I TO PUBLIC',
    CASE WHEN pg_catalog.count(DISTINCT grantee) > 1 THEN 's' END,
    string_agg(DISTINCT grantee::regrole::text, ', '), nspname, nspname
)
FROM others
JOIN pg_roles AS called ON called.oid = grantee
WHERE kind = 'function'
    AND NOT has_schema_privilege(grantee, nspname, 'USAGE')
    -- A role that nobody logs in as is used by its members, who may have the right elsewhere. Who
    -- inherits nothing becomes the role.
    AND (
        rolcanlogin
        OR NOT EXISTS (
            SELECT FROM pg_roles AS member
            WHERE rolcanlogin AND NOT rolsuper AND pg_has_role(member.oid, grantee, 'MEMBER')
        )
        OR EXISTS (
            SELECT FROM pg_roles AS member
            WHERE rolcanlogin
                AND NOT rolsuper
                AND pg_has_role(member.oid, grantee, 'MEMBER')
                AND NOT (
                    pg_has_role(member.oid, grantee, 'USAGE')
                    AND has_schema_privilege(member.oid, nspname, 'USAGE')
                )
        )
    )
GROUP BY nspname

-- What keeps tokens from being made or sent without an error, in sentences. Locks nothing.
WITH
-- The queue's functions read with the rights of their owner; a cursor reads with its own.
reader AS (
    SELECT oid, rolname, rolsuper OR rolbypassrls AS sees_all
    FROM pg_roles
    WHERE oid = coalesce(
        (SELECT proowner FROM pg_proc WHERE proname = 'mailroom_exchange' AND pg_function_is_visible(oid) LIMIT 1),
        (SELECT oid FROM pg_roles WHERE rolname = current_user)
    )
),
-- Replication applies rows without the triggers that are left as they are made.
silent AS (
    SELECT pg_class.relname, tgname
    FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
    WHERE tgrelid IN (to_regclass('accounts'), to_regclass('tokens'), to_regclass('pending'))
        AND NOT tgisinternal
        AND tgenabled = 'O'
        AND EXISTS (SELECT FROM pg_subscription_rel WHERE srrelid = to_regclass('accounts'))
)
SELECT format(
    'row-level security binds the role %I, with whose rights the table %I is read: tokens of accounts that a policy hides are'
    ' never sent; ALTER ROLE %I BYPASSRLS, or ALTER TABLE %I NO FORCE ROW LEVEL SECURITY as its owner',
    rolname, relname, rolname, relname
)
FROM pg_class CROSS JOIN reader
WHERE pg_class.oid IN (to_regclass('accounts'), to_regclass('tokens'))
    AND relrowsecurity
    AND NOT sees_all
    AND (relforcerowsecurity OR NOT pg_has_role(reader.oid, relowner, 'USAGE'))
UNION ALL
SELECT format(
    'the table accounts is filled by logical replication, for which triggers do not fire: accounts that come so get no token; %s',
    string_agg(format('ALTER TABLE %I ENABLE ALWAYS TRIGGER %I', relname, tgname), '; ' ORDER BY relname, tgname)
)
FROM silent
HAVING count(*) > 0

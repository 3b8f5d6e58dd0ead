-- The tables that a migration can drop, whoever owns them: the owner of a schema may drop all
-- tables in it.
SELECT oid, oid::regclass::text AS name
FROM pg_class
WHERE relkind IN ('r', 'p') AND relpersistence <> 't'
ORDER BY name

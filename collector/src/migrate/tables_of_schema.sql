-- Which of some tables a schema has.
SELECT relname::text
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = $1 AND relname = ANY ($2::text[]) AND relkind IN ('r', 'p')
ORDER BY relname

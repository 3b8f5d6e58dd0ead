-- Which of some tables a schema has; null if none.
SELECT string_agg(pg_catalog.format('`%s`', relname), ', ' ORDER BY relname)
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = $1 AND relname = ANY ($2::text[]) AND relkind IN ('r', 'p')

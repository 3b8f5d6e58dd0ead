-- The transaction of another client that has been open for longest in this database.
SELECT pg_catalog.format(
    'that of server process %s, user %s, application "%s", open for %s s',
    pid, usename, application_name, round(extract(epoch FROM clock_timestamp() - xact_start))
)
FROM pg_stat_activity
WHERE datname = current_database()
    AND pid <> pg_backend_pid()
    AND backend_type = 'client backend'
    AND xact_start IS NOT NULL
ORDER BY xact_start
LIMIT 1

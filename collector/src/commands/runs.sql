-- The newest $1 runs of collectors.
SELECT pg_catalog.json_build_object(
    'name', name,
    'version', version,
    'started_at', pg_catalog.to_char(
        started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'
    ),
    'seen_at', pg_catalog.to_char(seen_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
    'fate', fate,
    'reason', reason,
    'counts', counts,
    'settings', settings
)::text
FROM mailroom.list_runs($1)

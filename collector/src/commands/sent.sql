-- The index by time serves it: an hour of the log is read, however long the log is.
SELECT pg_catalog.json_build_object(
    'last_minute', count(*) FILTER (WHERE happened_at > now() - interval '1 minute'),
    'last_hour', count(*)
)::text
FROM mailroom.delivery_attempts
WHERE happened_at > now() - interval '1 hour' AND outcome OPERATOR(pg_catalog.=) 'sent'

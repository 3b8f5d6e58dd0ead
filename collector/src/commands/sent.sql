-- The index by time serves it: an hour of the log is read, however long the log is.
SELECT
    count(*) FILTER (WHERE happened_at > now() - interval '1 minute'),
    count(*)
FROM handovers
WHERE happened_at > now() - interval '1 hour' AND outcome OPERATOR(pg_catalog.=) 'sent'

-- What is known of tokens $1, or of the address $2, each event as a line of text and of JSON, when
-- it happened, and what it has in common with others of its kind.
SELECT
    pg_catalog.concat_ws(
        '  ', happened, 'token ' || token::text, event, action, 'attempt ' || attempt::text,
        provider, message_id, detail, collector
    ),
    pg_catalog.json_build_object(
        'token', token, 'happened_at', happened, 'event', event, 'attempt', attempt, 'action',
        action,
        'collector', collector, 'provider', provider, 'message_id', message_id, 'detail', detail
    )::text,
    happened,
    pg_catalog.concat_ws('  ', token::text, event, action, provider, message_id, detail)
FROM (
    SELECT *, to_char(happened_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS happened
    FROM mailroom.trace($1::bigint[], $2::text)
) AS traced

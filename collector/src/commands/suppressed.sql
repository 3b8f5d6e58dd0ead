-- The newest $1 suppressed addresses, or all, each as a line of text and of JSON. The role needs to
-- read the view.
SELECT
    pg_catalog.concat_ws(
        '  ', since, address, reason || coalesce(' (' || provider || ')', ''), detail
    ),
    pg_catalog.json_build_object(
        'address', address, 'reason', reason, 'provider', provider, 'detail', detail,
        'suppressed_at', since
    )::text
FROM (
    SELECT *, to_char(suppressed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS since
        FROM mailroom.suppressed_addresses
        ORDER BY suppressed_at DESC, address DESC
        LIMIT $1::bigint
) AS suppressed
ORDER BY suppressed_at, address

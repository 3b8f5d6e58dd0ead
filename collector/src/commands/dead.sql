-- The newest dead letters, at most $1, each as a line of text and of JSON. The role needs to read
-- the view.
SELECT
    pg_catalog.concat_ws(
        '  ', given_up, 'token ' || token::text, action,
        attempts::text || CASE attempts WHEN 1 THEN ' attempt' ELSE ' attempts' END,
        CASE WHEN expires_at > now() THEN 'its link ends at ' || link_ends END, reason
    ),
    pg_catalog.json_build_object(
        'token', token, 'action', action, 'attempts', attempts, 'doubts', doubts,
        'died_at', given_up, 'expires_at', link_ends, 'reason', reason
    )::text
FROM (
    SELECT
        *,
        to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS given_up,
        to_char(expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS link_ends
    FROM mailroom.waiting
    WHERE state = 'dead'
    ORDER BY since DESC, token DESC
    LIMIT $1::bigint
) AS dead
ORDER BY since DESC, token DESC

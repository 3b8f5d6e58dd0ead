-- Every token that is in more than one place, or in none, or still waits though it was sent, with
-- what is wrong.
WITH places AS (
    SELECT token, 'queued' AS place FROM mailroom.queue
    UNION ALL
    SELECT unnest(tokens), 'leased' FROM mailroom.leases
    UNION ALL
    SELECT token, 'handed over' FROM mailroom.handed_over
    UNION ALL
    SELECT token, 'dead' FROM mailroom.dead_letters
),
-- The outcomes after which a token goes nowhere.
ended AS (
    SELECT token, min(outcome::text) AS place, count(*) AS times
    FROM mailroom.delivery_attempts
    WHERE outcome::text IN ('sent', 'expired', 'cancelled')
    GROUP BY token
),
per_token AS (
    SELECT token, count(*) AS times, string_agg(place, ', ' ORDER BY place) AS names FROM places
        GROUP BY token
)
SELECT coalesce(tokens.id, per_token.token, ended.token) AS token,
    CASE
        WHEN per_token.times > 1 THEN 'is at once ' || per_token.names
        WHEN per_token.times = 1 AND ended.times > 0
            THEN 'is ' || per_token.names || ' after it was ' || ended.place
        WHEN ended.times > 1 THEN 'ended more than once, as ' || ended.place
        ELSE 'is nowhere'
    END AS fault
FROM tokens
FULL JOIN per_token ON per_token.token = tokens.id
FULL JOIN ended ON ended.token = coalesce(tokens.id, per_token.token)
WHERE coalesce(per_token.times, 0) + coalesce(ended.times, 0) <> 1
ORDER BY 1

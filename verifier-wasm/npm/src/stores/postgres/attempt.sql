-- The same values as of consume. Answers one row, number: that of this owner's try, which is how
-- many stood, this one included, when it was first taken; 101 if 100 owners have tried, or this one
-- took its try back. No row if the time is over.
INSERT INTO mailroom_used_tokens AS entry (namespace, id, remember_until, owners, tries)
SELECT $1::text, decode($2::text, 'hex'), to_timestamp($3::double precision), '{}',
    jsonb_build_object($4::text, 1)
WHERE to_timestamp($3::double precision) > statement_timestamp()
ON CONFLICT (namespace, id) DO UPDATE SET
    (holder, owners, tries, remember_until) = (
        SELECT
            live.holder,
            live.owners,
            CASE WHEN live.tries -> $4::text IS NULL AND tried.all_owners < 100
                THEN live.tries || jsonb_build_object($4::text, tried.standing + 1)
                    ELSE live.tries END,
            greatest(entry.remember_until, excluded.remember_until)
        FROM (
            SELECT entry.holder, entry.owners, entry.tries
                WHERE entry.remember_until > statement_timestamp()
            UNION ALL
            SELECT NULL, '{}', '{}' WHERE entry.remember_until <= statement_timestamp()
        ) AS live,
        LATERAL (
            SELECT count(*) AS all_owners, count(*) FILTER (WHERE number <> '0') AS standing
            FROM jsonb_each(live.tries) AS try (owner, number)
        ) AS tried
    )
RETURNING coalesce(nullif((entry.tries ->> $4::text)::integer, 0), 101) AS number

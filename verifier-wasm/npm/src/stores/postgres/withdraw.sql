-- The same values as of consume. Takes the try of this owner back. One that comes before its
-- attempt keeps that from counting; where 100 owners have tried, none counts any more.
INSERT INTO mailroom_used_tokens AS entry (namespace, id, remember_until, owners, tries)
SELECT $1::text, decode($2::text, 'hex'), to_timestamp($3::double precision), '{}',
    jsonb_build_object($4::text, 0)
ON CONFLICT (namespace, id) DO UPDATE SET
    (holder, owners, tries, remember_until) = (
        SELECT
            live.holder,
            live.owners,
            CASE WHEN live.tries -> $4::text IS NOT NULL OR tried.all_owners < 100
                THEN live.tries || jsonb_build_object($4::text, 0) ELSE live.tries END,
            greatest(entry.remember_until, excluded.remember_until)
        FROM (
            SELECT entry.holder, entry.owners, entry.tries
                WHERE entry.remember_until > statement_timestamp()
            UNION ALL
            SELECT NULL, '{}', '{}' WHERE entry.remember_until <= statement_timestamp()
        ) AS live,
        LATERAL (SELECT count(*) AS all_owners FROM jsonb_object_keys(live.tries)) AS tried
    )

-- The same values as of consume. Ends the use of this owner and no other. One that comes before its
-- consume leaves the owner among the owners, so that this consume gets nothing; where there are
-- 100, it gets nothing either. The tries stay counted. A time that is over makes a row that means
-- nothing, and others delete.
INSERT INTO mailroom_used_tokens AS entry (namespace, id, remember_until, owners, tries)
SELECT $1::text, decode($2::text, 'hex'), to_timestamp($3::double precision), ARRAY[$4::text], '{}'
ON CONFLICT (namespace, id) DO UPDATE SET
    (holder, owners, tries, remember_until) = (
        SELECT
            nullif(live.holder, $4::text),
            CASE WHEN $4::text <> ALL (live.owners) AND cardinality(live.owners) < 100
                THEN live.owners || $4::text ELSE live.owners END,
            live.tries,
            greatest(entry.remember_until, excluded.remember_until)
        FROM (
            SELECT entry.holder, entry.owners, entry.tries
                WHERE entry.remember_until > statement_timestamp()
            UNION ALL
            SELECT NULL, '{}', '{}' WHERE entry.remember_until <= statement_timestamp()
        ) AS live
    )

-- $1 namespace, $2 id in hexadecimal, $3 the time until which to remember it, in seconds since the
-- epoch, $4 the owner of this redemption in hexadecimal. Answers one row, first: whether this owner
-- has the first use, and full: whether no owner more can be remembered; no row if that time is
-- over. over: every use takes two rows away that mean nothing any more, so that the table does not
-- grow. Rows that others hold are passed by, so nobody waits for it. ON CONFLICT locks the row and
-- works on its newest version, also where that was not committed yet when this began.
WITH over AS (
    DELETE FROM mailroom_used_tokens
    WHERE ctid = ANY (ARRAY (
        SELECT ctid FROM mailroom_used_tokens
        WHERE remember_until <= statement_timestamp()
            AND (namespace, id) <> ($1::text, decode($2::text, 'hex'))
        ORDER BY remember_until
        LIMIT 2
        FOR UPDATE SKIP LOCKED
    ))
)
INSERT INTO mailroom_used_tokens AS entry (namespace, id, remember_until, holder, owners, tries)
SELECT $1::text, decode($2::text, 'hex'), to_timestamp($3::double precision), $4::text,
    ARRAY[$4::text], '{}'
WHERE to_timestamp($3::double precision) > statement_timestamp()
ON CONFLICT (namespace, id) DO UPDATE SET
    (holder, owners, tries, remember_until) = (
        SELECT
            CASE WHEN is_new THEN excluded.holder ELSE live.holder END,
            CASE WHEN is_new THEN live.owners || excluded.holder ELSE live.owners END,
            live.tries,
            greatest(entry.remember_until, excluded.remember_until)
        FROM (
            SELECT entry.holder, entry.owners, entry.tries
                WHERE entry.remember_until > statement_timestamp()
            UNION ALL
            SELECT NULL, '{}', '{}' WHERE entry.remember_until <= statement_timestamp()
        ) AS live,
        LATERAL (
            SELECT live.holder IS NULL AND excluded.holder <> ALL (live.owners)
                AND cardinality(live.owners) < 100 AS is_new
        ) AS asked
    )
RETURNING entry.holder IS NOT DISTINCT FROM $4::text AS first, $4::text <> ALL (entry.owners)
    AND entry.holder IS NULL AS full

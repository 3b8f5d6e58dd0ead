-- $1 namespace, $2 id in hexadecimal, $3 the time until which to remember it, in seconds since the epoch.
-- Answers one row, first: whether this is the first use; no row if that time is over.
-- over: every use takes two rows away that mean nothing any more, so that the table does not grow. Rows that others
-- hold are passed by, so nobody waits for it.
WITH over AS (
    DELETE FROM mailroom_used_tokens
    WHERE ctid = ANY (ARRAY (
        SELECT ctid FROM mailroom_used_tokens
        WHERE remember_until <= statement_timestamp() AND (namespace, id) <> ($1::text, decode($2::text, 'hex'))
        ORDER BY remember_until
        LIMIT 2
        FOR UPDATE SKIP LOCKED
    ))
)
INSERT INTO mailroom_used_tokens AS entry (namespace, id, remember_until, uses, tries)
SELECT $1::text, decode($2::text, 'hex'), to_timestamp($3::double precision), 1, 0
WHERE to_timestamp($3::double precision) > statement_timestamp()
ON CONFLICT (namespace, id) DO UPDATE SET
    uses = CASE WHEN entry.remember_until > statement_timestamp() THEN least(entry.uses, 1) + 1 ELSE 1 END,
    tries = CASE WHEN entry.remember_until > statement_timestamp() THEN entry.tries ELSE 0 END,
    remember_until = greatest(entry.remember_until, excluded.remember_until)
RETURNING entry.uses = 1 AS first

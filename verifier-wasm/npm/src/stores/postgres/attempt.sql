-- $1 namespace, $2 id in hexadecimal, $3 the time until which to remember it, in seconds since the epoch.
-- Answers one row, number: that of this try, beginning with 1; no row if that time is over.
INSERT INTO mailroom_used_tokens AS entry (namespace, id, remember_until, uses, tries)
SELECT $1::text, decode($2::text, 'hex'), to_timestamp($3::double precision), 0, 1
WHERE to_timestamp($3::double precision) > statement_timestamp()
ON CONFLICT (namespace, id) DO UPDATE SET
    uses = CASE WHEN entry.remember_until > statement_timestamp() THEN entry.uses ELSE 0 END,
    tries = CASE WHEN entry.remember_until > statement_timestamp() THEN least(entry.tries, 2147483646) + 1 ELSE 1 END,
    remember_until = greatest(entry.remember_until, excluded.remember_until)
RETURNING entry.tries AS number

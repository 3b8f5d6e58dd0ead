-- Counts up to about $2 tokens that are due, of all in the queue since $1, and says when the next one is. If a transaction with a
-- number above $3 has ended, takes a number itself, after the clock was read: all who had one then have a lower one. No snapshot
-- tells that, for transactions above the highest that has ended are in none. Idle servers have nothing to write because of it.
SELECT
    due, lapsed, next_after, asked_at, oldest_place, unfinished, unended,
    CASE WHEN unended > $3::bigint + 1 THEN pg_current_xact_id()::text::bigint END
FROM mailroom.peek($1::timestamptz, $2::integer)

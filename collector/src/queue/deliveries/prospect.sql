-- Counts up to about $2 tokens that are due, of all in the queue since $1, and says when the next one is.
SELECT due, lapsed, next_after, asked_at, oldest_place, unfinished, unborn
FROM mailroom_prospect($1::timestamptz, $2::integer)

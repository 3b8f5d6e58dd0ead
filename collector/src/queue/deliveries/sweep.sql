-- Makes tokens due that lie in the future after $1 only because the clock was set back, about $2 of
-- each priority, and erases the secrets of expired dead letters. Returns the time up to which it
-- looked, null at the end.
SELECT mailroom.sweep($1::timestamptz, $2::integer)

-- Makes due what lies in the future after $1 without a reason, looking at about $2 tokens, and clears away what is over; answers
-- how far it came.
SELECT mailroom.sweep($1::timestamptz, $2::integer)

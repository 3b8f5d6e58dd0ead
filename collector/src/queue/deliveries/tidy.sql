-- Clears away what is over of the parked tokens after $2, as collector $1, looks at about $3, and answers how far it came.
SELECT parked_through FROM mailroom_tidy($1::bigint, $2::bigint, $3::integer)

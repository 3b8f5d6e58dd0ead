-- Clears away what is over of the parked tokens after $2, as collector $1, and makes due what lies in the future without a reason,
-- after $3; looks at about $4 of each, and answers how far it came.
SELECT parked_through, later_through FROM mailroom_tidy($1::bigint, $2::bigint, $3::timestamptz, $4::integer)

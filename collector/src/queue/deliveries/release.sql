-- Releases batches $2 of collector $1, from which nothing was sent.
SELECT mailroom.release($1::bigint, $2::uuid[])

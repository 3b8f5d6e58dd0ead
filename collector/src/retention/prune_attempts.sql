SELECT pruned, CASE WHEN $2 + $3 < all_blocks THEN $2 + $3 END, all_blocks
FROM mailroom.prune_attempts(now() - interval '1 second' * $1::float8, $2::bigint, $3::integer)

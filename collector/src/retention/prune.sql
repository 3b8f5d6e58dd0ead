SELECT pruned, all_blocks FROM mailroom_prune(now() - interval '1 second' * $1::float8, $2::bigint, $3::integer)

SELECT pruned, all_blocks FROM mailroom.prune_attempts(now() - interval '1 second' * $1::float8, $2::bigint, $3::integer)

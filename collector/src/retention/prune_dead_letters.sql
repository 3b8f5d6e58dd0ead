SELECT pruned, CASE WHEN has_more THEN $2::bigint END
FROM mailroom.prune_dead_letters(now() - interval '1 second' * $1::float8, $3::integer)

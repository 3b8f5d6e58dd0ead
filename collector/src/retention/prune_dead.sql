SELECT mailroom_prune_dead(now() - interval '1 second' * $1::float8, $2::integer)

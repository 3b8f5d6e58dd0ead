SELECT mailroom.prune_dead_letters(now() - interval '1 second' * $1::float8, $2::integer)

SELECT pruned, through_id FROM mailroom.prune_account_tokens(now() - interval '1 second' *
    $1::float8, $2::bigint, $3::integer)

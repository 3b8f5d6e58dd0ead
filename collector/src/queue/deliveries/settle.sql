-- Settles batches $1 with exceptions $2 to $6; the answer names the tokens that were given up, also when this is repeated.
SELECT batch, token, attempt
FROM mailroom.settle(
    $1::uuid[], $2::uuid[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::integer, $8::bigint, $9::bigint
)

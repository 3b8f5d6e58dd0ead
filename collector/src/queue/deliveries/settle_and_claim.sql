-- Settles batches $2 of collector $1 with exceptions $4 to $8, gives batches $3 back, and claims batches with the names $11.
-- Rows without an action are tokens that were given up by that. The last row has no token, and says what was found; there is none
-- if no batch is wanted.
SELECT
    batch, token, attempt, action, email, login, secret, code, expires_at,
    looked, waiting, expired, cancelled, parked, recoveries_through, activations_through
FROM mailroom_exchange(
    $1::bigint, $2::uuid[], $3::uuid[],
    $4::uuid[], $5::bigint[], $6::text[], $7::bigint[], $8::text[], $9::integer, $10::bigint,
    $11::uuid[], $12::integer, $13::boolean, $14::integer, $15::integer, $16::timestamptz, $17::timestamptz,
    $18::bigint, $19::bigint
)

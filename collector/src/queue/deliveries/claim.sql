-- Claims batches with the names $2 for collector $1. The last row has no token, and says what was found.
SELECT
    batch, token, attempt, action, email, login, secret, code, expires_at, language, payload,
    looked, waiting, expired, cancelled, deferred, unsignable, reason, first_through, second_through, binding, wait, other_rate,
    suppressed
FROM mailroom.claim(
    $1::bigint, $2::uuid[], $3::integer, $4::boolean, $5::integer, $6::integer, $7::timestamptz, $8::timestamptz,
    $9::bigint, $10::bigint, $11::smallint[], $12::boolean, $13::bigint
)

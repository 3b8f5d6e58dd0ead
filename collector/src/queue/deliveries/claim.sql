-- Claims batches with the ids $2 for collector $1. The last row has no batch, and says what was found.
SELECT
    batch, tokens, attempts, actions, emails, names, secrets, codes, expirations, languages, payloads, bindings,
    looked, waiting, expired, cancelled, deferred, unsignable, suppressed, reason, first_through, second_through, wait, other_rate
FROM mailroom.claim(
    $1::bigint, $2::uuid[], $3::integer, $4::boolean, $5::integer, $6::integer, $7::timestamptz, $8::timestamptz,
    $9::bigint, $10::bigint, $11::smallint[], $12::boolean, $13::bigint
)

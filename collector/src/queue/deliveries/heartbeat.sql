-- Renews the leases $3 of collector $1, called $2, for $4 milliseconds, and returns lapsed leases
-- that end at or after $5 to the queue. Says that the sender has been in the state $6 for $7
-- milliseconds, because of $8, and that this collector signs the format $9 for the installation
-- $10; its version $11, settings $12 and counts $13. Returns the leases that were renewed, then the
-- low watermark in a row without a batch.
SELECT batch, low_watermark
FROM mailroom.heartbeat(
    $1::bigint, $2::text, $3::uuid[], $4::bigint, $5::timestamptz, $6::text, $7::bigint, $8::text,
        $9::text, $10::text, $11::text, $12::text, $13::text
)

-- Renews the leases $3 of collector $1, called $2, for $4 milliseconds, and returns lapsed leases that end at or after $5
-- to the queue. Returns the leases that were renewed, then the low watermark in a row without a batch.
SELECT batch, low_watermark FROM mailroom.heartbeat($1::bigint, $2::text, $3::uuid[], $4::bigint, $5::timestamptz)

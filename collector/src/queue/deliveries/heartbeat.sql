-- Renews the leases $3 of collector $1, called $2, for $4 milliseconds, gives back to the queue what no
-- collector holds since $5, and returns which of the leases are still there; then, without a batch, where to begin.
SELECT batch, low_watermark FROM mailroom.heartbeat($1::bigint, $2::text, $3::uuid[], $4::bigint, $5::timestamptz)

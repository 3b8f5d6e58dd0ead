-- The tokens that collectors hold now.
SELECT unnest(tokens) FROM mailroom.leases

-- What the log says of each token, in the order in which it was written: whatever the clock said.
SELECT token, attempt, outcome::text
FROM mailroom.delivery_log CROSS JOIN LATERAL pg_catalog.unnest(tokens) AS item (token)
ORDER BY token, id

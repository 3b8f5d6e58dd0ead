-- Settles batches $1 with exceptions $2 to $6 and receipts $10 to $14; the answer names the tokens
-- that were given up, also when this is repeated.
SELECT batch, token, attempt FROM mailroom.settle($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
    $13, $14)

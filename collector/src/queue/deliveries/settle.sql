-- Settles batches $1 with exceptions $2 to $6; the answer names the tokens that were given up, also when this is repeated.
SELECT batch, token, attempt FROM mailroom.settle($1, $2, $3, $4, $5, $6, $7, $8, $9)

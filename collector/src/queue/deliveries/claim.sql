-- Claims batches with the ids $2 for collector $1. The last row has no batch, and says what was
-- found. All columns, in the function's order: this is parsed for every claim,
-- and names take longer.
SELECT * FROM mailroom.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)

-- Records verdicts of senders at a broker; the answer says by the place of each what became of it.
SELECT place, result FROM mailroom.settle_verdicts($1, $2, $3, $4, $5, $6, $7, $8, $9)

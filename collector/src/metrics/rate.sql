-- How many tokens of the rate of $1 a day are used and left now.
SELECT used, available FROM mailroom.measure_rate($1)

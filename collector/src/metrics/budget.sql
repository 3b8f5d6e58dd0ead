-- How many tokens of the month's budget are used, and when the next month begins.
SELECT used, pg_catalog.date_part('epoch', ends_at)::double precision
FROM mailroom.measure_budget()

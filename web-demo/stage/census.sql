-- How many rows are where; no page of the demonstration makes more than some ten thousand.
SELECT
    (SELECT count(*) FROM accounts) AS registered,
    (SELECT count(*) FROM mailroom.queue) AS waiting,
    (SELECT coalesce(sum(cardinality(tokens)), 0) FROM mailroom.leases) AS claimed,
    (SELECT count(*) FROM mailroom.delivery_attempts WHERE outcome = 'sent') AS sent

-- How many rows are where; no page of the demonstration makes more than some ten thousand.
SELECT
    (SELECT count(*) FROM accounts) AS registered,
    (SELECT count(*) FROM pending) AS waiting,
    (SELECT coalesce(sum(cardinality(tokens)), 0) FROM leases) AS claimed,
    (SELECT count(*) FROM handovers WHERE outcome = 'sent') AS sent

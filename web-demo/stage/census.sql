-- How many rows are where. Of `tokens` only what is still to be sent is looked at.
SELECT
    (SELECT count(*) FROM accounts) AS registered,
    (
        SELECT count(*)
        FROM tokens
        WHERE id > (SELECT last_seq FROM jobs WHERE job_type = 'mailroom') AND consumed_at IS NULL
    ) AS waiting,
    0 AS claimed,
    (SELECT count(*) FROM tokens WHERE id <= (SELECT last_seq FROM jobs WHERE job_type = 'mailroom')) AS sent

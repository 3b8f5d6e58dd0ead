-- How many tokens wait to be claimed, and how many batches are claimed. Deferred tokens wait for
-- somebody to change an account, which no test waits for.
SELECT (SELECT count(*) FROM mailroom.queue WHERE deferrals = 0), (SELECT count(*)
    FROM mailroom.leases)

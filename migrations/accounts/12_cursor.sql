-- The cursor goes to the end of all ids, where collectors that know nothing of the queue find
-- nothing to send; `mailroom` refuses to collect by it. What it still owes is taken over by
-- catch_up.

-- Which tokens were sent, and which are still to be looked at; until catch_up has taken them over.
ALTER TABLE mailroom.installation ADD COLUMN adopted_after bigint, ADD COLUMN adopts_through bigint;

UPDATE mailroom.installation
SET adopted_after = coalesce((SELECT min(coalesce(last_seq, 0))
    FROM jobs), 0), adopts_through = (SELECT max(id) FROM tokens);

UPDATE jobs SET last_seq = 9223372036854775807;

COMMENT ON COLUMN jobs.last_seq IS
    'Id up to which tokens were read by a cursor; the greatest number since tokens are queued '
    'in mailroom.queue.';

-- Reads the cursor of queue $1, by writing it: a session that may not write finds out before it
-- sends anything. Locks the one row of jobs.
UPDATE jobs
SET last_seq = coalesce(last_seq, 0)
WHERE job_type::text = $1::text
RETURNING last_seq

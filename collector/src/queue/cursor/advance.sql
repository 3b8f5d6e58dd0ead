-- Moves the cursor of queue $1 from $3 to $2, and changes no row if that is not this session's to
-- do. Locks the one row of jobs, after the advisory lock $4.
UPDATE jobs
SET last_seq = $2::bigint
WHERE job_type::text = $1::text
    -- Somebody else who moved the cursor meanwhile is not overruled.
    AND coalesce(last_seq, 0) = $3::bigint
    AND $2::bigint > $3::bigint
    -- Succeeds in the session that holds the lock of the queue and fails while another one does: a
    -- collector whose session was taken from it, by a connection pool for instance, cannot move the
    -- cursor of its successor.
    AND (SELECT pg_try_advisory_xact_lock($4::bigint))

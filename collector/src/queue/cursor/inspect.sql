-- What a new session must know before it asks for queue $1. Locks nothing.
SELECT
    -- The names of all queues, if $1 is none of them.
    CASE
        WHEN NOT EXISTS (SELECT FROM jobs WHERE job_type::text = $1::text)
        THEN (SELECT coalesce(string_agg(job_type::text, ', ' ORDER BY job_type), '') FROM jobs)
    END,
    -- The advisory lock of this queue. The table's oid tells schemas of one database apart.
    hashtextextended(
        pg_catalog.format('mailroom queue %s in %s', $1::text, 'jobs'::regclass::oid), 0::bigint
    ),
    pg_backend_pid(),
    (SELECT backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()),
    -- Whether tokens of accounts are queued, from where another queue takes them.
    EXISTS (
        SELECT FROM pg_class AS own JOIN pg_class AS other USING (relnamespace)
        WHERE own.relname = 'adopted_accounts' AND other.relname = 'issued_tokens'
    )

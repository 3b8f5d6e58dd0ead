-- For this transaction, waiting for a lock ends after $1 unless a limit is set already; working has no limit.
-- PostgreSQL 17 brought transaction_timeout.
SELECT set_config(name, CASE name WHEN 'lock_timeout' THEN $1::text ELSE '0' END, true)
FROM pg_settings
WHERE (name = 'lock_timeout' AND setting = '0')
    OR name IN ('statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout')

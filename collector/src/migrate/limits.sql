-- Overrides the limits of role and database for a migration; lock_timeout only where it is unset,
-- by $1. If $2, until the end of the transaction, otherwise for the rest of the session. PostgreSQL
-- 17 brought transaction_timeout.
SELECT set_config(
    name,
    CASE name
        WHEN 'lock_timeout' THEN $1::text
        WHEN 'default_transaction_isolation' THEN 'read committed'
        WHEN 'default_transaction_read_only' THEN 'off'
        ELSE '0'
    END,
    $2::boolean
)
FROM pg_settings
WHERE (name = 'lock_timeout' AND setting = '0')
    OR name IN (
        'statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout',
        'default_transaction_isolation', 'default_transaction_read_only'
    )

-- Applies these settings to a collector's session, also to the listener's; leaves out those that
-- the server lacks.
SELECT set_config(wanted.name, wanted.setting, false)
FROM (
    VALUES
        -- Plan with the actual parameters, not with averages: the cursor may stand anywhere.
        ('plan_cache_mode', 'force_custom_plan'),
        -- Compiling takes longer than any statement here.
        ('jit', 'off'),
        -- A session is idle most of the time, and one that listens has no statement for days.
        ('idle_session_timeout', '0'),
        ('default_transaction_isolation', 'read committed'),
        -- The server notices within about ten seconds that the collector's machine is gone, and
        -- frees its locks: that of the cursor, for which another collector waits, and the idle
        -- lock, because of which writers would notify of every token.
        ('tcp_keepalives_idle', '4'),
        ('tcp_keepalives_interval', '2'),
        ('tcp_keepalives_count', '3'),
        ('tcp_user_timeout', '10000')
) AS wanted (name, setting)
JOIN pg_settings USING (name)

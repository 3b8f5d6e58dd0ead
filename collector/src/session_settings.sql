-- Sets for a session of a collector, also the one that listens, what the server knows of these settings.
SELECT set_config(wanted.name, wanted.setting, false)
FROM (
    VALUES
        -- Values are planned for, not averages: the cursor may stand anywhere.
        ('plan_cache_mode', 'force_custom_plan'),
        -- Compiling takes longer than any statement here.
        ('jit', 'off'),
        -- A session is idle most of the time, and one that listens has no statement for days.
        ('idle_session_timeout', '0'),
        ('default_transaction_isolation', 'read committed'),
        -- The server notices within about ten seconds that the collector's machine is gone, and frees its locks: that of the
        -- cursor, for which another collector waits, and that by which writers know that a collector is idle: they would
        -- announce every token, and no collector would listen.
        ('tcp_keepalives_idle', '4'),
        ('tcp_keepalives_interval', '2'),
        ('tcp_keepalives_count', '3'),
        ('tcp_user_timeout', '10000')
) AS wanted (name, setting)
JOIN pg_settings USING (name)

-- Sets for this session what the server knows of these settings.
SELECT set_config(wanted.name, wanted.setting, false)
FROM (
    VALUES
        -- Values are planned for, not averages: the cursor may stand anywhere.
        ('plan_cache_mode', 'force_custom_plan'),
        -- Compiling takes longer than any statement here.
        ('jit', 'off'),
        -- A standing collector is idle most of the time.
        ('idle_session_timeout', '0'),
        ('default_transaction_isolation', 'read committed'),
        -- The server notices within about ten seconds that the collector's machine is gone, and frees its lock.
        ('tcp_keepalives_idle', '4'),
        ('tcp_keepalives_interval', '2'),
        ('tcp_keepalives_count', '3'),
        ('tcp_user_timeout', '10000')
) AS wanted (name, setting)
JOIN pg_settings USING (name)

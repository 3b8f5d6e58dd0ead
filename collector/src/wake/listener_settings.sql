-- Sets for this session what the server knows of these settings.
SELECT set_config(wanted.name, wanted.setting, false)
FROM (
    VALUES
        -- It listens for days without a statement.
        ('idle_session_timeout', '0'),
        -- The server notices within about ten seconds that the collector's machine is unreachable, and frees the lock by which
        -- writers know that a collector is idle: they would announce every token, and no collector would listen.
        ('tcp_keepalives_idle', '4'),
        ('tcp_keepalives_interval', '2'),
        ('tcp_keepalives_count', '3'),
        ('tcp_user_timeout', '10000')
) AS wanted (name, setting)
JOIN pg_settings USING (name)

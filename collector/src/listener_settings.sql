-- Sets for this session what the server knows of these settings.
SELECT set_config(wanted.name, wanted.setting, false)
FROM (
    VALUES
        -- It listens for days without a word.
        ('idle_session_timeout', '0'),
        -- The server notices within about ten seconds that the collector's machine is gone, and frees the lock by which
        -- writers know that somebody sleeps: they would announce every token to nobody.
        ('tcp_keepalives_idle', '4'),
        ('tcp_keepalives_interval', '2'),
        ('tcp_keepalives_count', '3'),
        ('tcp_user_timeout', '10000')
) AS wanted (name, setting)
JOIN pg_settings USING (name)

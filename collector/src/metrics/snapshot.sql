-- For how many seconds the oldest transaction has kept vacuum from removing rows. A role sees those
-- of other roles only if it has pg_read_all_stats.
SELECT coalesce(
    pg_catalog.max(
        pg_catalog.date_part(
            'epoch', pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) xact_start
        )
    ) FILTER (WHERE backend_xmin IS NOT NULL),
    0::double precision
)
FROM pg_catalog.pg_stat_activity
WHERE pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid()
    AND datname OPERATOR(pg_catalog.=) pg_catalog.current_database()

-- Tried, not waited for: whoever prunes already does the same. The oid tells the schemas of one database apart.
SELECT pg_try_advisory_lock(1886549349, 'handovers'::regclass::oid::integer)

-- Tried, not waited for: the process that has it prunes already. The oid tells the schemas of one database apart.
SELECT pg_try_advisory_lock(1886549349, 'handovers'::regclass::oid::integer)

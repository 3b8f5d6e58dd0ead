-- Tried, not waited for: the process that has it prunes already.
SELECT pg_try_advisory_lock(1886549349, 'mailroom.delivery_log'::regclass::oid::integer)

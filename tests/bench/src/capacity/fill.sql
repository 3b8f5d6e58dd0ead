-- Users and their used or expired links of the last day: ROWS of each, without triggers.
UPDATE mailroom.actions SET lifetime = '1 day' WHERE name = 'activate';
SET synchronous_commit = off;
SET session_replication_role = replica;
INSERT INTO shop.users (id, email, name, verified_at)
SELECT md5(n::text)::uuid, 'u' || n || '@example.test', 'User ' || n, now()
FROM generate_series(1, ROWS) AS n;
INSERT INTO mailroom.issued_tokens (
    id, action, subject_id, recipient_email, recipient_name, consumed_id, created_at, expires_at,
    consumed_at
)
SELECT
    nextval('mailroom.issued_tokens_id_seq'), 1, md5(n::text)::uuid::text,
    'u' || n || '@example.test', 'User ' || n, substr(sha256(int8send(n)), 1, 16), made, made + 900,
    CASE n % 2 WHEN 0 THEN made + 60 END
FROM generate_series(1::bigint, ROWS) AS n
CROSS JOIN LATERAL (
    SELECT extract(epoch FROM now() - interval '1 day' * (1 - n / (ROWS + 1)::float8))::bigint
) AS at (made);
RESET session_replication_role;
RESET synchronous_commit;
VACUUM ANALYZE

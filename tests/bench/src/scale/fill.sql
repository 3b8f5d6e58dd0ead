-- An installation that has sent mails for forty days, with TOKENS tokens in all. Of 130 of them 100
-- are old, 10 are due, 10 deferred and 10 due later, half of these at one instant; one is a dead
-- letter. Every user has 13. Without triggers, and with the random index built at the end, which
-- takes a tenth of the time.
SET synchronous_commit = off;
SET maintenance_work_mem = '512MB';
SET work_mem = '128MB';
SET session_replication_role = replica;

CREATE TEMPORARY TABLE sizes AS
SELECT TOKENS * 100 / 131 AS old, TOKENS * 10 / 131 AS part, TOKENS / 131 AS dead, TOKENS / 13
    AS users;

INSERT INTO shop.users (id, email, name, verified_at)
SELECT md5(n::text)::uuid, 'u' || n || '@example.test', 'User ' || n, now()
FROM sizes, generate_series(1, users) AS n;

ALTER TABLE mailroom.issued_tokens DROP CONSTRAINT issued_tokens_consumed_id_key;
DROP INDEX mailroom.issued_tokens_subject_id_idx;

-- Links of a quarter of an hour, a third of which were used.
INSERT INTO mailroom.issued_tokens (
    id, action, subject_id, recipient_email, recipient_name, language, consumed_id, code_hash,
        created_at,
    expires_at, consumed_at
)
SELECT
    n, CASE n % 3 WHEN 0 THEN 4 WHEN 1 THEN 5 ELSE 2 END, md5(whose::text)::uuid::text,
    'u' || whose || '@example.test', 'User ' || whose, 'en', substr(sha256(int8send(n)), 1, 16),
    CASE WHEN n % 3 <> 0 THEN sha256(int8send(n + 1)) END, made, made + 900, CASE n % 3 WHEN 1
        THEN made + 60 END
FROM sizes
CROSS JOIN LATERAL generate_series(1::bigint, old) AS n
CROSS JOIN LATERAL (SELECT 1 + n * 7919 % users, extract(epoch
    FROM now() - interval '40 days' * (1 - n / old::float8))::bigint)
    AS at (whose, made);

-- What waits, and what was given up.
INSERT INTO mailroom.issued_tokens (
    id, action, subject_id, recipient_email, recipient_name, language, consumed_id, created_at,
        expires_at
)
SELECT
    n, 4, md5(whose::text)::uuid::text, 'u' || whose || '@example.test', 'User ' || whose, 'en',
    substr(sha256(int8send(n)), 1, 16), extract(epoch FROM now())::bigint,
    extract(epoch FROM now() + interval '7 days')::bigint
FROM sizes
CROSS JOIN LATERAL generate_series(old + 1::bigint, old + 3 * part + dead) AS n
CROSS JOIN LATERAL (SELECT 1 + n * 7919 % users) AS at (whose);

INSERT INTO mailroom.queue (token, due_at, put_off_at, deferrals, priority, secret)
SELECT
    n,
    CASE (n - old - 1) / part
        WHEN 0 THEN now() - interval '1 hour' * (n - old) / part
        WHEN 1 THEN now() + interval '5 minutes' + interval '1 hour' * (n - old) / part
        ELSE CASE n % 2
            WHEN 0 THEN date_trunc('hour', now()) + interval '9 hours' + interval '1 microsecond' *
                (n % 1000000)
            ELSE now() + interval '1 day' * (n - old) / part
        END
    END,
    CASE WHEN n > old + part THEN now() - interval '1 minute' END,
    CASE (n - old - 1) / part WHEN 1 THEN 9 ELSE 0 END,
    n % 2, sha256(int8send(-n))
FROM sizes, generate_series(old + 1::bigint, old + 3 * part) AS n;

INSERT INTO mailroom.dead_letters (token, died_at, expires_at, attempts, failures, priority, reason)
SELECT n, now() - interval '1 day' * (n % 40), extract(epoch
    FROM now())::bigint - 86400, 3, 1, 1, '550 no such user'
FROM sizes, generate_series(old + 3 * part + 1::bigint, old + 3 * part + dead) AS n;

INSERT INTO mailroom.delivery_log (tokens, happened_at, collector_id, batch, attempt, outcome)
SELECT
    ARRAY(SELECT generate_series(n * 10, n * 10 + 9)),
        now() - interval '40 days' * (1 - n * 10 / old::float8), 42,
    gen_random_uuid(), 1, 'sent'
FROM sizes, generate_series(1::bigint, old / 10 - 1) AS n;

INSERT INTO mailroom.receipts (token, attempt, accepted_at, action, provider, message_id, answer,
    address_hash)
SELECT
    n, 1, now() - interval '40 days' * (1 - n / old::float8), 4, 'smtp', 'id ' || n,
        '250 2.0.0 queued',
    mailroom.address_hash('u' || 1 + n * 7919 % users || '@example.test', address_key)
FROM sizes, mailroom.installation, generate_series(1::bigint, old, 5) AS n;

INSERT INTO mailroom.idempotency_keys (action, key, token, digest, expires_at, subject_id)
SELECT
    4, 'key ' || n, n, sha256(int8send(n)), extract(epoch
        FROM now() + interval '1 day' * (n % 40 - 1))::bigint,
    md5((1 + n * 7919 % users)::text)::uuid::text
FROM sizes, generate_series(1::bigint, old, 2) AS n;

ALTER TABLE mailroom.issued_tokens ADD CONSTRAINT issued_tokens_consumed_id_key UNIQUE
    (consumed_id);
CREATE INDEX issued_tokens_subject_id_idx ON mailroom.issued_tokens (subject_id);
SELECT setval('mailroom.issued_tokens_id_seq', TOKENS + 1);
RESET session_replication_role;
RESET synchronous_commit;
VACUUM ANALYZE;

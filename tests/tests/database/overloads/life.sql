-- Has every function of the schema that calls another one do all that it does.
UPDATE mailroom.actions SET eligibility = 'mailroom.active_accounts(text[], boolean)'
WHERE name = 'sign_in';

CREATE FUNCTION public.everybody(subject_ids text[], is_redemption boolean)
RETURNS TABLE (subject_id text, email text, name text)
LANGUAGE sql SECURITY DEFINER
BEGIN ATOMIC
    SELECT id, 'ada@xn--exmple-cua.test'::text, 'Ada'::text FROM unnest(subject_ids) AS id;
END;

UPDATE mailroom.actions SET eligibility = 'public.everybody(text[], boolean)'
WHERE name = 'change_email';

UPDATE mailroom.actions SET notice = 'notice', code_notice = 'notice'
WHERE name IN ('recover', 'change_email', 'sign_in');

-- Accounts, and the triggers of both tables.
INSERT INTO accounts (email, login) VALUES
    ('ada@example.test', 'ada'), ('bob@exämple.test', 'bob'), ('eve@example.test', 'eve');
SELECT api.redeem(secret, 'activate') FROM mailroom.queue WHERE token = 1;
SELECT api.redeem(secret, 'activate') FROM mailroom.queue WHERE token = 2;
SELECT api.request('ada@example.test', action, cooldown => '0')
FROM unnest(ARRAY['activate', 'recover', 'sign_in']) AS action;
UPDATE accounts SET status = 'suspended' WHERE login = 'bob';
UPDATE accounts SET status = 'active' WHERE login = 'bob';
UPDATE accounts SET email = 'ada@new.test' WHERE login = 'ada';
INSERT INTO tokens (account, action) SELECT id, 'password_recovery' FROM accounts
WHERE login = 'ada';
UPDATE tokens SET consumed_at = extract(epoch FROM now())
WHERE id = (SELECT max(id) FROM tokens);
DELETE FROM accounts WHERE login = 'eve';

-- Tokens of the application.
SELECT api.browser_code(decode(repeat('ab', 16), 'hex'));
SELECT api.enqueue('invite', 'Ada@Exämple.test', 'Ada', 'team', '{"of": [1]}', 'de', NULL, 'first',
    decode(repeat('ab', 16), 'hex'), NULL);
SELECT api.enqueue('invite', 'Ada@Exämple.test', 'Ada', 'team', '{"of": [1]}', 'de', NULL, 'first',
    decode(repeat('ab', 16), 'hex'), NULL);
SELECT api.redeem(secret, 'invite', binding_proven => true)
FROM mailroom.queue
WHERE token = (SELECT max(token) FROM mailroom.queue);
SELECT api.enqueue('change_email', 'ada@exämple.test', subject_id => id)
FROM unnest(ARRAY['1', '2']) AS id;
SELECT api.redeem(secret, 'change_email')
FROM mailroom.queue
WHERE token = (SELECT max(token) FROM mailroom.queue);
SELECT api.enqueue('notice', format('%s@example.test', name))
FROM unnest(ARRAY['sent', 'retry', 'failed', 'unavailable', 'doubtful', 'unknown', 'void',
    'late', 'renewed', 'cancelled']) AS name;
SELECT api.enqueue('sign_in', 'bob@exämple.test', subject_id => id::text)
FROM accounts
WHERE login = 'bob';
UPDATE mailroom.actions SET cooldown = '0 seconds' WHERE name = 'sign_in';
SELECT api.renew_link(secret, 'sign_in')
FROM mailroom.queue
WHERE token = (SELECT max(token) FROM mailroom.queue);
SELECT api.redeem(secret, 'sign_in', 'wrong')
FROM mailroom.queue
WHERE token = (SELECT max(token) FROM mailroom.queue);
SELECT api.redeem(secret, 'sign_in', code)
FROM mailroom.queue
WHERE token = (SELECT max(token) FROM mailroom.queue);
INSERT INTO mailroom.code_failures (subject, failures, rests_until)
SELECT id::text, 99, 0 FROM accounts WHERE login = 'bob';
SELECT api.enqueue('sign_in', 'bob@exämple.test', subject_id => id::text)
FROM accounts
WHERE login = 'bob';
SELECT api.redeem(secret, 'sign_in', 'wrong')
FROM mailroom.queue
WHERE token = (SELECT max(token) FROM mailroom.queue);
-- What follows has nothing to do with notices, and with this token.
SELECT api.cancel(token) FROM mailroom.payloads WHERE payload ? 'about';
SELECT api.cancel(max(token)) FROM mailroom.queue;
SELECT api.cancel(id) FROM mailroom.issued_tokens WHERE recipient_email = 'cancelled@example.test';
SELECT api.enqueue('invite', 'x@example.test', subject_id => 'gone');
SELECT api.cancel_subject('gone');
SELECT api.suppress('void@example.test', 'manual');

-- A collector: one claim of which everything goes wrong, one that is released, and one without
-- calls of predicates.
SELECT api.heartbeat(7, 'collector', '{}', 60000, NULL);
SELECT api.peek('-infinity', 10);
UPDATE mailroom.queue SET doubts = 1 WHERE token = (SELECT id FROM mailroom.issued_tokens
    WHERE recipient_email = 'late@example.test');
UPDATE mailroom.issued_tokens SET expires_at = extract(epoch FROM now()) - 10
WHERE recipient_email IN ('late@example.test', 'renewed@example.test');
INSERT INTO accounts (email, login, status) VALUES ('sue@example.test', 'sue', 'suspended');
SELECT api.enqueue('recover', 'sue@example.test', subject_id => id::text)
FROM accounts
WHERE login = 'sue';
SELECT * FROM api.claim(7, ARRAY['00000000-0000-0000-0000-000000000001']::uuid[], 3, true, 100,
    0, NULL, NULL, 60000, 0, '{1,2,3,4,5,6}', true, 86400000, true, 1000000);
SELECT api.release(7, ARRAY(SELECT batch FROM mailroom.leases));
SELECT * FROM api.claim(7, ARRAY['00000000-0000-0000-0000-000000000002']::uuid[], 100, true, 100,
    0, NULL, NULL, 60000, 0, '{1,2,3,4,5,6}', true, 86400000);
SELECT api.settle(
    ARRAY['00000000-0000-0000-0000-000000000002']::uuid[],
    array_agg('00000000-0000-0000-0000-000000000002'::uuid),
    array_agg(id),
    array_agg(CASE split_part(recipient_email, '@', 1)
        WHEN 'doubtful' THEN 'in_doubt'
        WHEN 'unknown' THEN 'unknown_address'
        ELSE split_part(recipient_email, '@', 1) END),
    array_agg(NULL::bigint),
    array_agg('for some reason'::text),
    8, 250, 0,
    ARRAY['00000000-0000-0000-0000-000000000002']::uuid[],
    ARRAY[(SELECT id FROM mailroom.issued_tokens WHERE recipient_email = 'sent@example.test')],
    ARRAY['smtp'], ARRAY[NULL::text], ARRAY['250 2.0.0 Ok']
)
FROM mailroom.issued_tokens
WHERE recipient_email ~ '^(retry|failed|unavailable|doubtful|unknown)@';
SELECT api.sweep(NULL, 100);
SELECT api.list_actions();

-- Mails that a broker has had for an hour.
INSERT INTO mailroom.handed_over (
    token, handed_over_at, expires_at, attempts, failures, priority, secret, code, doubts
)
SELECT id, now() - interval '1 hour', expires_at, 1, 0, 0, consumed_id || consumed_id, NULL, 0
FROM mailroom.issued_tokens
WHERE recipient_email IN ('renewed@example.test', 'late@example.test');
SELECT * FROM api.list_handed_over(0, 10);
SELECT api.settle_verdicts(
    array_agg(id), array_agg(encode(consumed_id, 'hex')),
    array_agg(CASE recipient_email WHEN 'late@example.test' THEN 'sent' ELSE 'unknown_address' END),
    array_agg(1), array_agg(0), array_agg('for some reason'::text), array_agg('smtp'::text),
    array_agg(NULL::text), array_agg('250 2.0.0 Ok'::text)
)
FROM mailroom.issued_tokens
WHERE recipient_email IN ('renewed@example.test', 'late@example.test');

-- Operators, and who answers for personal data.
SELECT api.retry(ARRAY(SELECT token FROM mailroom.dead_letters));
INSERT INTO mailroom.dead_letters (token, died_at, expires_at, attempts, failures, priority, reason)
SELECT id, now(), expires_at, 1, 1, 0, 'none'
FROM mailroom.issued_tokens
WHERE recipient_email IN ('renewed@example.test', 'late@example.test')
ON CONFLICT DO NOTHING;
SELECT api.retry_all();
INSERT INTO mailroom.dead_letters (token, died_at, expires_at, attempts, failures, priority, reason)
SELECT id, now(), expires_at, 1, 1, 0, 'none'
FROM mailroom.issued_tokens
WHERE recipient_email = 'sent@example.test';
SELECT api.discard_all();
SELECT api.history(1);
SELECT api.trace(ARRAY(SELECT id FROM mailroom.issued_tokens));
SELECT api.trace(address => 'unknown@example.test');
SELECT api.lift_suppression('unknown@example.test');
SELECT api.status();
SELECT * FROM api.measure();
SELECT * FROM api.measure_rate(86400);
SELECT * FROM api.measure_budget();
SELECT api.return_unspent(1, 0);
SELECT * FROM api.list_runs();
SELECT * FROM mailroom.deliveries;
SELECT * FROM mailroom.waiting;
SELECT * FROM mailroom.suppressed_addresses;
SELECT api.recheck('team');
SELECT api.export_subject('team', 'sent@example.test');
SELECT api.forget('team', 'sent@example.test');
SELECT api.prune_attempts(now() - interval '1 month', 0, 100);
SELECT api.prune_dead_letters(now() - interval '1 month', 100);
SELECT api.prune_tokens(now() - interval '1 month', 0, 100);
SELECT api.prune_account_tokens(now() - interval '1 month', 0, 100);
SELECT mailroom.bind(NULL::text);
DELETE FROM tokens WHERE id = (SELECT max(id) FROM tokens);
SET CONSTRAINTS ALL IMMEDIATE;
TRUNCATE tokens CASCADE;

-- An installation of the base schema after some time, with a code that is none.
INSERT INTO accounts (email, login) SELECT format('%s@b.test', n), n FROM generate_series(1, 20) n;
UPDATE tokens SET consumed_at = extract(epoch FROM now()) WHERE account % 2 = 0;
UPDATE accounts SET status = 'suspended' WHERE id % 5 = 0;
INSERT INTO tokens (account, action) SELECT id, 'password_recovery' FROM accounts
WHERE status = 'active';
INSERT INTO tokens (account, action, code) VALUES (1, 'activation', '#####');
UPDATE jobs SET last_seq = 15;

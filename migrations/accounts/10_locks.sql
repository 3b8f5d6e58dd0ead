-- From here on nobody reads or writes the tables.

-- Ends an autovacuum, for which others would have to wait together with the locks below.
LOCK TABLE accounts, tokens IN SHARE UPDATE EXCLUSIVE MODE;

-- Waits for every transaction that has inserted a token, and for collectors that move the cursor.
SELECT mailroom.lock_briefly('jobs', 'accounts', 'tokens');

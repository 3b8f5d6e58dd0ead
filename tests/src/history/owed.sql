-- The tokens of which somebody still waits for the mail: unused, unexpired, and of an account that
-- may have it.
SELECT tokens.id, tokens.secret
FROM tokens
JOIN accounts ON accounts.id = tokens.account
WHERE tokens.consumed_at IS NULL
    AND tokens.expires_at > extract(epoch FROM now())
    AND accounts.status::text = CASE tokens.action::text WHEN 'activation' THEN 'provisioned'
        ELSE 'active' END

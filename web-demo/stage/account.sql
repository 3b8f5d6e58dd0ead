-- An account and the newest token of each action, as the database sees them. $1 is the email.
SELECT
    accounts.login,
    accounts.email,
    accounts.status::text AS status,
    activation.token AS activation,
    recovery.token AS recovery
FROM accounts
LEFT JOIN LATERAL (
    SELECT json_build_object('id', id, 'expiresAt', expires_at, 'usedAt', consumed_at) AS token
    FROM tokens
    WHERE tokens.account = accounts.id AND tokens.action = 'activation'
    ORDER BY id DESC
    LIMIT 1
) activation ON true
LEFT JOIN LATERAL (
    SELECT json_build_object(
        'id', id,
        'expiresAt', expires_at,
        'usedAt', consumed_at,
        'tries', (SELECT count(*) FROM mailroom.code_attempts WHERE code_attempts.token = tokens.id)
    ) AS token
    FROM tokens
    WHERE tokens.account = accounts.id AND tokens.action = 'password_recovery'
    ORDER BY id DESC
    LIMIT 1
) recovery ON true
WHERE accounts.email = $1

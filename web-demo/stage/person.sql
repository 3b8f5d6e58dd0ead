-- What the database has of somebody: the account with the newest token of each action, and the
-- newest invitation, which needs no account. $1 is the email.
SELECT
    (
        SELECT json_build_object(
            'login', accounts.login,
            'email', accounts.email,
            'status', accounts.status,
            'activation', activation.token,
            'recovery', recovery.token
        )
        FROM accounts
        LEFT JOIN LATERAL (
            SELECT json_build_object('id', id, 'expiresAt', expires_at, 'usedAt', consumed_at)
                AS token
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
                'tries', (SELECT count(*) FROM mailroom.code_attempts
                WHERE code_attempts.token = tokens.id)
            ) AS token
            FROM tokens
            WHERE tokens.account = accounts.id AND tokens.action = 'password_recovery'
            ORDER BY id DESC
            LIMIT 1
        ) recovery ON true
        WHERE accounts.email = $1
    ) AS account,
    (
        SELECT json_build_object('id', id, 'team', team, 'acceptedAt', extract(epoch
            FROM accepted_at))
        FROM product.invitations
        WHERE email = $1
        ORDER BY invited_at DESC
        LIMIT 1
    ) AS invitation

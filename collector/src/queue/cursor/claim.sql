-- Reads a page of tokens after id $1, at most $2 rows, and the single rows $3, and says which can
-- be sent now. Answers at least one row; the first two columns are the same in all. Locks nothing.
-- The columns $4 are answered as a byte that is never UTF-8: for rows with a character that has no
-- UTF-8 form, at which the server refuses the whole statement.
WITH
-- What texts are sent in, as bytes. A database without an encoding may hold any bytes, and the
-- server would refuse the whole answer for one row that is not UTF-8.
wire AS (
    SELECT CASE getdatabaseencoding() WHEN 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END AS encoding
),
-- The next rows in id order, whatever their state. The limit stands before every other condition,
-- so a page costs the same wherever it begins and however many rows in it cannot be sent.
page AS MATERIALIZED (
    SELECT id, action, secret, code, account, expires_at, consumed_at
    FROM tokens
    WHERE id > $1::bigint
    ORDER BY id
    LIMIT $2::bigint
),
-- How far the page reaches.
reach AS (
    SELECT coalesce(max(id), $1::bigint) AS through, count(*) AS rows
    FROM page
),
-- Rows that were seen earlier and whose accounts did not have the right status then.
seen AS (
    SELECT id, action, secret, code, account, expires_at, consumed_at
    FROM tokens
    WHERE id = ANY ($3::bigint[])
),
-- A row that is expired or consumed stays so, and is left out for good.
alive AS (
    SELECT *
    FROM (TABLE page UNION ALL TABLE seen) AS candidates
    WHERE consumed_at IS NULL
        AND expires_at::numeric > (SELECT extract(epoch FROM statement_timestamp()))
),
-- The status of an account can change, so a row with the wrong one may become eligible. OFFSET 0
-- keeps this a look-up by primary key for each row: no join order that reads all accounts can be
-- chosen from outdated statistics.
judged AS (
    SELECT
        alive.id,
        alive.action::text AS action,
        alive.secret,
        alive.code,
        alive.expires_at,
        account.email,
        account.login,
        CASE alive.action::text
            WHEN 'activation' THEN account.status::text = 'provisioned'
            WHEN 'password_recovery' THEN account.status::text = 'active'
            ELSE false
        END AS eligible
    FROM alive
    CROSS JOIN LATERAL (
        SELECT email, login, status
        FROM accounts
        WHERE accounts.id = alive.account
        OFFSET 0
    ) AS account
)
SELECT
    reach.through,
    reach.rows,
    judged.id,
    judged.eligible,
    CASE WHEN judged.eligible THEN judged.action END,
    CASE
        WHEN judged.eligible AND 'email' = ANY ($4::text[]) THEN '\xff'::bytea
        WHEN judged.eligible THEN convert_to(judged.email::text, wire.encoding::name)
    END,
    CASE
        WHEN judged.eligible AND 'login' = ANY ($4::text[]) THEN '\xff'::bytea
        WHEN judged.eligible THEN convert_to(judged.login::text, wire.encoding::name)
    END,
    CASE WHEN judged.eligible THEN judged.secret END,
    CASE
        WHEN judged.eligible AND 'code' = ANY ($4::text[]) THEN '\xff'::bytea
        WHEN judged.eligible THEN convert_to(judged.code::text, wire.encoding::name)
    END,
    CASE WHEN judged.eligible THEN judged.expires_at::bigint END,
    -- Whether the schema got the queue of deliveries, which sends these tokens, since this session
    -- began. A statement that sees a token in that queue sees this, too.
    EXISTS (
        SELECT FROM pg_class AS own JOIN pg_class AS other USING (relnamespace)
        WHERE own.relname = 'adopted_accounts' AND other.relname = 'issued_tokens'
    )
FROM reach
CROSS JOIN wire
LEFT JOIN judged ON true
ORDER BY judged.id

-- Reads the page of at most $2 tokens that ends at id $1, and names those in it that may still have to be sent although
-- a cursor has passed them. Answers at least one row; the first three columns are the same in all. Locks nothing.
WITH
-- The last rows up to $1, whatever their state; the limit keeps the price of a page the same everywhere.
page AS MATERIALIZED (
    SELECT
        id,
        action,
        account,
        created_at,
        consumed_at,
        expires_at > (SELECT extract(epoch FROM statement_timestamp())) AS unexpired
    FROM tokens
    WHERE id <= $1::bigint
    ORDER BY id DESC
    LIMIT $2::bigint
),
-- Where the next page ends, and whether it is worth reading.
reach AS (
    SELECT coalesce(min(id) - 1, $1::bigint) AS before, count(*) AS rows, coalesce(bool_or(unexpired), false) AS unexpired
    FROM page
),
-- Tokens whose account has the wrong status, or had it since they were made: nothing tells whether those were sent.
-- The second allows for created_at, which is rounded up. OFFSET 0 keeps this a look-up by primary key for each row.
owed AS (
    SELECT page.id
    FROM page
    CROSS JOIN LATERAL (
        SELECT status, status_changed_at
        FROM accounts
        WHERE accounts.id = page.account
        OFFSET 0
    ) AS account
    WHERE page.unexpired
        AND page.consumed_at IS NULL
        AND (
            account.status_changed_at >= page.created_at - 1
            OR CASE page.action::text
                WHEN 'activation' THEN account.status::text <> 'provisioned'
                WHEN 'password_recovery' THEN account.status::text <> 'active'
                ELSE true
            END
        )
)
SELECT reach.before, reach.rows, reach.unexpired, owed.id
FROM reach
LEFT JOIN owed ON true

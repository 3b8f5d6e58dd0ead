-- Reads the page of at most $2 tokens that ends at id $1, and names those in it that may still have
-- to be sent although the cursor, which stands at $3, has passed them. Answers at least one row;
-- the first three columns are the same in all. Locks nothing.
WITH
-- The last rows up to $1, whatever their state;
-- the limit keeps the price of a page the same everywhere.
page AS MATERIALIZED (
    SELECT
        id,
        action,
        account,
        created_at,
        consumed_at,
        expires_at::numeric > (SELECT extract(epoch FROM statement_timestamp())) AS unexpired
    FROM tokens
    WHERE id <= $1::bigint
    ORDER BY id DESC
    LIMIT $2::bigint
),
-- Where the next page ends, and whether this one was worth reading.
reach AS (
    SELECT coalesce(min(id) - 1, $1::bigint) AS before, count(*)
        AS rows, coalesce(bool_or(unexpired), false) AS unexpired
    FROM page
),
-- When the last token that the cursor has passed was made. Deferred tokens were read again before
-- it was claimed, so every change of status at least $4 seconds older was seen.
witness AS (
    SELECT created_at
    FROM tokens
    WHERE id <= $3::bigint
    ORDER BY id DESC
    LIMIT 1
),
-- A token was always eligible if its account got the right status before the token was made, with
-- $5 seconds for transactions that began before they could be seen. OFFSET 0 keeps this a look-up
-- by primary key for each row.
owed AS (
    SELECT page.id
    FROM page
    CROSS JOIN witness
    CROSS JOIN LATERAL (
        SELECT status, status_changed_at
        FROM accounts
        WHERE accounts.id = page.account
        OFFSET 0
    ) AS account
    WHERE page.unexpired
        AND page.consumed_at IS NULL
        AND (
            CASE page.action::text
                WHEN 'activation' THEN account.status::text <> 'provisioned'
                WHEN 'password_recovery' THEN account.status::text <> 'active'
                ELSE true
            END
            OR (
                account.status_changed_at >= page.created_at - $5::bigint
                AND account.status_changed_at >= witness.created_at - $4::bigint
            )
        )
)
SELECT reach.before, reach.rows, reach.unexpired, owed.id
FROM reach
LEFT JOIN owed ON true

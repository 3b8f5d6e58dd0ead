-- Everything that is known of each token, one row a fact: of a place with its doubts as nth, of the
-- log in its order.
SELECT 'row' AS kind, tokens.id AS token, NULL::integer AS attempt, NULL::text
    AS outcome, expires_at AS moment,
    consumed_at IS NOT NULL OR cancelled_at IS NOT NULL AS is_void,
    eligibility IS NULL OR (status::text = CASE action WHEN 1 THEN 'provisioned'
        ELSE 'active' END) IS TRUE AS is_eligible, 0 AS nth
FROM mailroom.issued_tokens AS tokens
JOIN mailroom.actions ON actions.number = action
LEFT JOIN accounts ON accounts.id::text = subject_id
UNION ALL
SELECT CASE deferrals WHEN 0 THEN 'queued' ELSE 'deferred' END, token, attempts, NULL, NULL, NULL,
    NULL, doubts
FROM mailroom.queue
UNION ALL
SELECT 'leased', item.token, NULL, NULL, NULL, NULL, NULL, coalesce(item.doubts, 0)
FROM mailroom.leases CROSS JOIN LATERAL ROWS FROM (unnest(tokens), unnest(doubts))
    AS item (token, doubts)
UNION ALL
SELECT 'dead', token, attempts, NULL, NULL, NULL, NULL, doubts FROM mailroom.dead_letters
UNION ALL
SELECT 'log', token, attempt, outcome::text, floor(extract(epoch
    FROM happened_at))::bigint, NULL, NULL,
    row_number() OVER (ORDER BY log.ctid)
FROM mailroom.delivery_log AS log CROSS JOIN LATERAL unnest(log.tokens) AS item (token)
ORDER BY nth

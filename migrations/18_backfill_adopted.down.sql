-- no-transaction
--
-- Tokens stay in the queue until migration 17 is taken back, which holds its locks while it deletes
-- them. So that they are few then, what nobody can use or send any more leaves
-- mailroom.issued_tokens here; mailroom.redeem() does not know it from then on. Cancelled tokens
-- stay, by which 17 knows what the cursor must not send.
--
-- Locks: a thousand rows at a time, for some milliseconds. Rows that others have locked are passed
-- over. Each batch commits.

DO $$
DECLARE
    batch CONSTANT integer := 1000;
    lower bigint := 0;
    upper bigint;
    gone bigint[];
BEGIN
    ALTER TABLE mailroom.installation
        ADD COLUMN IF NOT EXISTS adopted_after bigint,
            ADD COLUMN IF NOT EXISTS adopts_through bigint;
    COMMIT;

    LOOP
        -- Plans for each batch by primary key.
        PERFORM set_config(name, 'off', true)
        FROM unnest(ARRAY['enable_seqscan', 'enable_hashjoin', 'enable_mergejoin', 'jit']) AS name;

        upper := (SELECT max(id) FROM (SELECT id FROM mailroom.issued_tokens WHERE id > lower
            ORDER BY id LIMIT batch) AS next);
        EXIT WHEN upper IS NULL;

        gone := ARRAY(
            SELECT known.id
            FROM mailroom.issued_tokens AS known
            JOIN tokens USING (id)
            WHERE known.id > lower AND known.id <= upper
                AND (known.consumed_at IS NOT NULL OR known.expires_at <= extract(epoch
                    FROM clock_timestamp()))
                AND known.cancelled_at IS NULL
            FOR UPDATE OF known SKIP LOCKED
        );

        WITH expired AS (
            DELETE FROM mailroom.queue
            WHERE token = ANY (ARRAY(SELECT token FROM mailroom.queue
                WHERE token = ANY (gone) FOR UPDATE SKIP LOCKED))
            RETURNING *
        ),
        given_up AS (
            INSERT INTO mailroom.dead_letters (
                token, died_at, expires_at, attempts, failures, priority, reason, doubts
            )
            SELECT
                token, clock_timestamp(), tokens.expires_at, attempts, failures, priority,
                mailroom.doubtful('it expired after an attempt in doubt'), doubts
            FROM expired
            JOIN mailroom.issued_tokens AS tokens ON tokens.id = token
            WHERE doubts > 0 AND tokens.consumed_at IS NULL
            ON CONFLICT DO NOTHING
            RETURNING token, reason
        )
        INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome, reason)
        SELECT
            ARRAY[expired.token], clock_timestamp(), attempts,
            CASE WHEN given_up.token IS NULL THEN 'expired' ELSE 'dead' END::mailroom.outcome,
            given_up.reason
        FROM expired
        LEFT JOIN given_up ON given_up.token = expired.token;

        DELETE FROM mailroom.issued_tokens WHERE id = ANY (gone)
            AND NOT EXISTS (SELECT FROM mailroom.queue WHERE token = id);
        lower := upper;
        COMMIT;
    END LOOP;
END;
$$;

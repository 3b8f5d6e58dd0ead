-- no-transaction
--
-- Tokens stay in the queue until adopt_accounts is taken back, which holds its locks while it
-- deletes them. So that they are few then, what nobody can use or send any more leaves
-- mailroom.issued_tokens here; mailroom.redeem() does not know it from then on. Cancelled tokens
-- stay, by which adopt_accounts knows what the cursor must not send.
--
-- Columns that hold times stay as wide as they are: whoever reads them as numbers reads them as
-- before, and a time after 2038 could not be restored. Codes stay, too.
--
-- Locks: a thousand rows at a time, for some milliseconds. Rows that others have locked are passed
-- over. Each batch commits. Where columns were being replaced, nobody reads or writes the table for
-- some milliseconds.

DO $$
DECLARE
    batch CONSTANT integer := 1000;
    lower bigint := 0;
    upper bigint;
    gone bigint[];
    relation text;
    singular text;
    obsolete text;
BEGIN
    -- What was begun of wider columns. Those that are in their places stay.
    FOREACH singular IN ARRAY ARRAY['token', 'account'] LOOP
        relation := singular || 's';
        obsolete := (
            SELECT string_agg(pg_catalog.format('DROP COLUMN %I', attname), ', ') FROM pg_attribute
            WHERE attrelid = relation::regclass::oid AND attname::text LIKE '%\_at\_bigint'
                AND to_regproc(pg_catalog.format('copy_%s_epochs', singular)) IS NOT NULL
        );

        IF obsolete IS NOT NULL THEN
            PERFORM set_config('lock_timeout', '5s', true)
            WHERE current_setting('lock_timeout') = '0';
            EXECUTE pg_catalog.format('LOCK TABLE %I IN SHARE UPDATE EXCLUSIVE MODE', relation);
            PERFORM mailroom.lock_briefly(relation::regclass);
            EXECUTE pg_catalog.format('DROP FUNCTION copy_%s_epochs() CASCADE', singular);
            EXECUTE pg_catalog.format(
                'ALTER TABLE %I DROP CONSTRAINT copy_%s_epochs, %s', relation, singular, obsolete
            );
        END IF;

        COMMIT;
    END LOOP;

    ALTER TABLE mailroom.installation
        ADD COLUMN IF NOT EXISTS adopted_after bigint,
            ADD COLUMN IF NOT EXISTS adopts_through bigint;
    COMMIT;

    LOOP
        -- Plans for each batch by primary key.
        PERFORM set_config(name, 'off', true)
        FROM pg_catalog.unnest(
            ARRAY['enable_seqscan', 'enable_hashjoin', 'enable_mergejoin', 'jit']
        ) AS name;

        upper := (SELECT max(id) FROM (SELECT id FROM mailroom.issued_tokens WHERE id > lower
            ORDER BY id LIMIT batch) AS next);
        EXIT WHEN upper IS NULL;

        gone := ARRAY(
            SELECT known.id
            FROM mailroom.issued_tokens AS known
            JOIN tokens USING (id)
            WHERE known.id > lower AND known.id <= upper
                AND (known.consumed_at IS NOT NULL OR known.expires_at::numeric <= extract(epoch
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

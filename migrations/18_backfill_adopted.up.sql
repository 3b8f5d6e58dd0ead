-- no-transaction
--
-- Fault: what the cursor still owed is not in the queue yet. It is taken over, the newest tokens
-- first, since those are good for longest:
-- - every token after it, whatever its state, so that each gets its entry in the log;
-- - of the tokens before it those that can still be used; and of these those are queued whose
--   account has not the right status, or got it so late that the cursor may have passed them
--   before: they are sent, perhaps for the second time.
--
-- Locks: a thousand rows at a time, for some milliseconds. Rows that others have locked are passed
-- over and waited for alone, so that nobody who locks several waits for this in a circle. Each
-- batch commits with how far it came, and the next run goes on from there.

DO $$
DECLARE
    batch CONSTANT integer := 1000;
    sent_through bigint;
    upper bigint;
    lower bigint := 0;
    epoch bigint;
    wanted bigint[];
    locked bigint[] := '{}';
    missed bigint;
BEGIN
    -- Where all was done already, and only not recorded.
    ALTER TABLE mailroom.installation
        ADD COLUMN IF NOT EXISTS adopted_after bigint,
            ADD COLUMN IF NOT EXISTS adopts_through bigint;
    COMMIT;

    LOOP
        -- Plans for each batch by primary key, whatever the size of what has been taken over.
        PERFORM set_config(name, 'off', true)
        FROM unnest(ARRAY['enable_seqscan', 'enable_hashjoin', 'enable_mergejoin', 'jit']) AS name;
        PERFORM set_config('lock_timeout', '5s', true) WHERE current_setting('lock_timeout') = '0';
        PERFORM FROM tokens WHERE id = missed FOR NO KEY UPDATE;

        SELECT adopted_after, adopts_through INTO sent_through, upper FROM mailroom.installation;
        lower := (SELECT min(id) FROM (SELECT id FROM tokens WHERE id <= upper ORDER BY id DESC
            LIMIT batch) AS next);
        EXIT WHEN lower IS NULL;

        epoch := floor(extract(epoch FROM clock_timestamp()));
        wanted := ARRAY(
            SELECT id FROM tokens
            WHERE id BETWEEN lower AND upper
                AND (id > sent_through OR (consumed_at IS NULL AND expires_at > epoch))
                AND NOT EXISTS (
                    SELECT FROM mailroom.issued_tokens AS known
                    WHERE known.id = tokens.id AND known.consumed_id =
                        mailroom.consumed_id(tokens.secret)
                )
        );
        -- Who uses a token now waits, and finds it in issued_tokens then.
        locked := ARRAY(SELECT id FROM tokens WHERE id = ANY (wanted) FOR NO KEY UPDATE SKIP
            LOCKED);

        WITH
        taken_over AS MATERIALIZED (
            SELECT
                tokens.*,
                CASE tokens.action::text WHEN 'activation' THEN 1 ELSE 2 END AS number,
                CASE WHEN mailroom.is_addressable(accounts.email::text)
                    THEN accounts.email::text END AS recipient_email,
                accounts.login::text AS recipient_name,
                accounts.status::text,
                accounts.status_changed_at
            FROM tokens
            JOIN accounts ON accounts.id = tokens.account
            WHERE tokens.id = ANY (locked)
        ),
        known AS (
            INSERT INTO mailroom.issued_tokens (
                id, action, subject_id, recipient_email, recipient_name, consumed_id, code_hash,
                    created_at, expires_at, consumed_at
            )
            SELECT
                id,
                number,
                account::text,
                recipient_email,
                recipient_name,
                mailroom.consumed_id(secret),
                CASE number WHEN 1 THEN NULL ELSE mailroom.code_hash(secret, code) END,
                created_at,
                expires_at,
                consumed_at
            FROM taken_over
        )
        INSERT INTO mailroom.queue (token, due_at, priority, secret, code)
        SELECT id, clock_timestamp(), 2 - number, secret, code
        FROM taken_over
        WHERE id > sent_through
            OR status IS DISTINCT FROM CASE number WHEN 1 THEN 'provisioned' ELSE 'active' END
            -- What the cursor has been told of accounts is no older than the last token that it has
            -- passed, but for the longest time between two looks of a collector, 270 s, and for
            -- transactions that take a minute.
            OR (
                status_changed_at >= created_at - 60
                AND status_changed_at
                    >= (SELECT created_at FROM tokens WHERE id <= sent_through ORDER BY id DESC
                        LIMIT 1) - 330
            ) IS TRUE
        ORDER BY id;

        missed := (SELECT min(id) FROM (SELECT unnest(wanted) EXCEPT SELECT unnest(locked))
            AS rest (id));

        IF missed IS NULL THEN
            UPDATE mailroom.installation SET adopts_through = lower - 1;
        END IF;

        COMMIT;
    END LOOP;

    ALTER TABLE mailroom.installation DROP COLUMN IF EXISTS adopted_after,
        DROP COLUMN IF EXISTS adopts_through;
END;
$$;

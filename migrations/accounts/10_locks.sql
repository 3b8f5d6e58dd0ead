-- Others wait behind a lock that is waited for. So this waits for a tenth of a second, lets all
-- pass and tries again, for as long as lock_timeout allows, or five seconds. Those who lock the
-- tables in another order, as whoever uses a token locks it before its account, wait no longer than
-- that. catch_up uses it, too, and drops it.

CREATE FUNCTION mailroom.lock_briefly(tables text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    limit_of_all text := current_setting('lock_timeout');
    ends_at timestamptz := clock_timestamp()
        + CASE limit_of_all WHEN '0' THEN '5s' ELSE limit_of_all END::interval;
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '100ms', true);
            EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', tables);
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF clock_timestamp() > ends_at THEN
                RAISE;
            END IF;
        END;

        PERFORM pg_sleep(0.05 + 0.1 * random());
    END LOOP;

    PERFORM set_config('lock_timeout', limit_of_all, true);
END;
$$;

-- Ends an autovacuum, for which others would have to wait together with the locks below.
LOCK TABLE accounts, tokens IN SHARE UPDATE EXCLUSIVE MODE;

-- Waits for every transaction that has inserted a token, and for collectors that move the cursor.
SELECT mailroom.lock_briefly('jobs, accounts, tokens');

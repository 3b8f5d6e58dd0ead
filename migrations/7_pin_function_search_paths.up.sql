-- Fault: trigger functions looked tables up on the search path of whoever changed a row, so that a
-- session with another path failed, or wrote to another table of the same name.
--
-- Locks: no table; some milliseconds.

BEGIN;

DO $$
DECLARE
    home name := (
        SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE pg_class.oid = 'accounts'::regclass
    );
    trigger_function text;
BEGIN
    FOREACH trigger_function IN ARRAY ARRAY[
        'trg_after_account_insert',
        'trg_before_account_status_change',
        'trg_after_token_consumed',
        'trg_after_token_inserted'
    ] LOOP
        EXECUTE format(
            'ALTER FUNCTION %I() SET search_path = pg_catalog, %I, pg_temp', trigger_function, home
        );
    END LOOP;
END;
$$;

COMMIT;

-- Does not go back: nobody has the secrets of the links that were sent.

BEGIN;

DO $$
BEGIN
    RAISE EXCEPTION 'secrets that were dropped do not come back'
        USING ERRCODE = 'feature_not_supported', HINT =
            'Restore a backup from before this migration.';
END;
$$;

COMMIT;

-- Up to which version, without a gap, the schema has the traces of the migrations; with $1, of
-- the one that makes schema mailroom. Each trace is something that neither the base schema nor
-- another migration makes.
WITH
-- What is in the schema mailroom, which is looked up by its name.
own AS (
    SELECT relname AS name FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname = 'mailroom'
    UNION ALL
    SELECT proname FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace
        WHERE nspname = 'mailroom'
),
traces (version, is_there) AS (
    VALUES
        (1, EXISTS (SELECT FROM own WHERE name = 'installation')),
        (2, EXISTS (SELECT FROM own WHERE name = 'adopted_accounts')),
        (3, EXISTS (SELECT FROM own WHERE name = 'adopted_accounts') AND NOT EXISTS (
            SELECT FROM pg_attribute
            WHERE attrelid = to_regclass('mailroom.installation')::oid
                AND attname = 'adopts_through'
                AND NOT attisdropped
        )),
        (4, EXISTS (SELECT FROM own WHERE name = 'trg_after_token_changed'))
)
SELECT
    coalesce(min(version) FILTER (WHERE NOT is_there) - 1, max(version))::bigint AS version,
    -- The newest that there is a trace of, and the newest that would leave one.
    coalesce(max(version) FILTER (WHERE is_there), 0)::bigint AS newest,
    -- 4 is taken only on request.
    max(version) FILTER (WHERE version < 4 OR is_there)::bigint AS known
FROM traces
WHERE NOT $1::boolean OR version = 1

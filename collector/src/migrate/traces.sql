-- Up to which version, without a gap, the schema has the traces of the migrations; with $2, of
-- those that make schema mailroom. Each trace is something that neither the base schema nor another
-- migration makes.
WITH
home AS (
    SELECT oid FROM pg_namespace WHERE nspname = $1
),
relations AS (
    SELECT relname, pg_class.oid FROM pg_class JOIN home ON relnamespace = home.oid
),
functions AS (
    SELECT proname, prosecdef, proconfig FROM pg_proc JOIN home ON pronamespace = home.oid
),
-- What is in the schema mailroom, which is looked up by its name.
own AS (
    SELECT relname AS name FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname = 'mailroom'
    UNION ALL
    SELECT proname FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace
        WHERE nspname = 'mailroom'
),
columns AS (
    SELECT relname, attname, format_type(atttypid, atttypmod) AS type_name
    FROM pg_attribute JOIN relations ON attrelid = relations.oid
),
triggers AS (
    SELECT relname, tgname FROM pg_trigger JOIN relations ON tgrelid = relations.oid
),
traces (version, is_there) AS (
    VALUES
        (1, EXISTS (SELECT FROM functions WHERE proname = 'generate_token_code')
            OR EXISTS (SELECT FROM own WHERE name = 'trg_after_token_changed')),
        (2, EXISTS (
            SELECT FROM pg_constraint JOIN relations ON conrelid = relations.oid
            WHERE relname = 'tokens' AND conname = 'tokens_code_five_digits' AND convalidated
        ) OR EXISTS (SELECT FROM own WHERE name = 'trg_after_token_changed')),
        -- This and the last ones take something away, which an empty schema has not either.
        (3, EXISTS (SELECT FROM relations WHERE relname = 'tokens')
            AND NOT EXISTS (SELECT FROM relations WHERE relname =
                'tokens_id_expires_consumed_action_idx')),
        (4, EXISTS (
            SELECT FROM columns WHERE relname = 'tokens' AND attname = 'expires_at'
                AND type_name = 'bigint'
        )),
        (5, EXISTS (
            SELECT FROM columns WHERE relname = 'accounts' AND attname = 'created_at'
                AND type_name = 'bigint'
        )),
        (6, EXISTS (SELECT FROM triggers WHERE relname = 'accounts'
            AND tgname = 'after_account_insert')),
        (7, EXISTS (
            SELECT FROM functions WHERE proname = 'trg_before_account_status_change'
                AND proconfig IS NOT NULL
        )),
        (8, EXISTS (
            SELECT FROM relations
            WHERE relname = 'jobs' AND obj_description(oid,
                'pg_class') = 'How far collectors have read.'
        )),
        (9, EXISTS (SELECT FROM triggers WHERE relname = 'tokens'
            AND tgname = 'after_token_changed')),
        (10, EXISTS (SELECT FROM functions WHERE proname = 'trg_after_account_insert' AND prosecdef)
            OR EXISTS (SELECT FROM own WHERE name = 'adopted_accounts')),
        (11, EXISTS (SELECT FROM own WHERE name = 'installation')),
        (12, EXISTS (SELECT FROM own WHERE name = 'enqueue')),
        (13, EXISTS (SELECT FROM own WHERE name = 'redeem')),
        (14, EXISTS (SELECT FROM own WHERE name = 'claim')),
        (15, EXISTS (SELECT FROM own WHERE name = 'sweep')),
        (16, EXISTS (SELECT FROM own WHERE name = 'prune_tokens')),
        (17, EXISTS (SELECT FROM own WHERE name = 'adopted_accounts')),
        (18, EXISTS (SELECT FROM own WHERE name = 'adopted_accounts') AND NOT EXISTS (
            SELECT FROM pg_attribute
            WHERE attrelid = to_regclass('mailroom.installation') AND attname = 'adopts_through'
                AND NOT attisdropped
        )),
        (19, EXISTS (SELECT FROM own WHERE name = 'adopted_accounts')
            AND NOT EXISTS (SELECT FROM relations WHERE relname = 'accounts_id_status_idx')),
        (20, EXISTS (SELECT FROM own WHERE name = 'trg_after_token_changed'))
)
SELECT
    coalesce(min(version) FILTER (WHERE NOT is_there) - 1, max(version))::bigint AS version,
    -- The newest that there is a trace of, and the newest that would leave one.
    coalesce(max(version) FILTER (WHERE is_there), 0)::bigint AS newest,
    -- 20 is taken only on request.
    max(version) FILTER (WHERE version < 20 OR is_there)::bigint AS known
FROM traces
WHERE NOT $2::boolean OR version BETWEEN 11 AND 16

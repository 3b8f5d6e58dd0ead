-- Nobody but the owner may call what was made here; roles are given rights as
-- docs/operate/rights.md says.

DO $$
DECLARE
    callable text;
BEGIN
    FOR callable IN
        SELECT pg_proc.oid::regprocedure::text
        FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace
        WHERE nspname = 'mailroom'
            AND pg_has_role(proowner, 'USAGE'::text)
            AND proname IN (
                'active_accounts', 'binding_setting', 'check_without_calls', 'next_token_id',
                'provisioned_accounts', 'prune_account_tokens', 'request',
                'trg_after_account_change', 'trg_after_account_replicated',
                'trg_after_accounts_delete', 'trg_after_accounts_insert',
                'trg_after_token_consumed', 'trg_after_token_redeemed', 'trg_after_tokens_delete',
                'trg_after_tokens_insert', 'trg_after_tokens_truncate',
                'trg_before_token_consumed'
            )
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', callable);
    END LOOP;
END;
$$;

-- Functions call those of other steps with the rights of their owner: what a superuser has made for
-- another role becomes that role's.
DO $$
DECLARE
    migrator oid := (SELECT oid FROM pg_roles WHERE rolname = current_user);
    home oid := (SELECT oid FROM pg_namespace WHERE nspname = 'mailroom');
    owner oid := (SELECT relowner FROM pg_class WHERE oid = 'mailroom.queue'::regclass::oid);
    made text;
BEGIN
    FOR made IN
        SELECT 'FUNCTION ' || oid::regprocedure::text
        FROM pg_proc
        WHERE pronamespace = home AND proowner = migrator AND migrator <> owner
        UNION ALL
        SELECT 'VIEW ' || oid::regclass::text
        FROM pg_class
        WHERE relnamespace = home AND relkind = 'v' AND relowner = migrator AND migrator <> owner
        UNION ALL
        SELECT 'SEQUENCE ' || oid::regclass::text
        FROM pg_class
        WHERE relnamespace = home AND relkind = 'S' AND relowner = migrator AND migrator <> owner
            -- Those of columns go with their tables.
            AND NOT EXISTS (
                SELECT FROM pg_depend
                WHERE classid = 'pg_class'::regclass::oid AND objid = pg_class.oid
                    AND deptype IN ('a', 'i')
            )
    LOOP
        EXECUTE pg_catalog.format('ALTER %s OWNER TO %s', made, owner::regrole);
    END LOOP;
END;
$$;

SELECT mailroom.revoke_default_privileges();
SELECT mailroom.refuse_public_definers();

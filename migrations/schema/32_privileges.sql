-- Who may call what: everybody what only computes, nobody else the rest. Roles are given rights as
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
            AND proname NOT IN (
                'begin_step', 'clock', 'code_hash', 'consumed_id', 'is_address', 'is_addressable',
                'is_language', 'is_utf8', 'language_tag', 'map_address', 'normal_address',
                'expiry_bound',
                -- Which those of addresses call.
                'code_points', 'fold_letter', 'punycode', 'to_ascii_label', 'to_utf8'
            )
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', callable);
    END LOOP;
END;
$$;

SELECT mailroom.revoke_default_privileges();
SELECT mailroom.refuse_public_definers();

-- Whether `claim` takes the arguments of claim.sql, and others only if they can be left out, as a
-- newer version may have them, and whether the tokens of accounts, if any, are queued; the server's
-- start. claim.sql reads all columns by their place: a change of these, other than one more at the
-- end, needs one of the arguments.
SELECT coalesce((
    SELECT
        pronargs - pronargdefaults <= 15
        AND (proargtypes::oid[])[0:14] OPERATOR(pg_catalog.=) ARRAY[
            'bigint'::regtype, 'uuid[]'::regtype, 'integer'::regtype, 'boolean'::regtype,
            'integer'::regtype, 'integer'::regtype, 'timestamptz'::regtype, 'timestamptz'::regtype,
            'bigint'::regtype, 'bigint'::regtype, 'smallint[]'::regtype, 'boolean'::regtype,
            'bigint'::regtype, 'boolean'::regtype, 'bigint'::regtype
        ]::oid[]
    FROM pg_proc
    WHERE oid = pg_catalog.to_regproc('mailroom.claim')::oid
), false) AND (to_regclass('mailroom.adopted_accounts') IS NOT NULL
    OR to_regtype('token_action') IS NULL),
    pg_postmaster_start_time()

-- Whether claims can be made as claim.sql makes them, and find the tokens of accounts, if there are accounts. And when the server was started.
SELECT to_regprocedure(
    'mailroom.claim(bigint, uuid[], integer, boolean, integer, integer, timestamptz, timestamptz, bigint, bigint, smallint[], boolean, bigint)'
) IS NOT NULL AND (to_regclass('mailroom.adopted_accounts') IS NOT NULL OR to_regtype('token_action') IS NULL),
    pg_postmaster_start_time()

-- Whether `claim` takes the arguments of claim.sql and the tokens of accounts, if any, are queued;
-- the server's start. claim.sql reads all columns by their place:
-- a change of these needs one of the arguments.
SELECT to_regprocedure(
    'mailroom.claim(bigint, uuid[], integer, boolean, integer, integer, timestamptz, timestamptz, '
    'bigint, bigint, smallint[], boolean, bigint, boolean, bigint)'
) IS NOT NULL AND (to_regclass('mailroom.adopted_accounts') IS NOT NULL
    OR to_regtype('token_action') IS NULL),
    pg_postmaster_start_time()

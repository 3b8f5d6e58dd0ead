-- Feature: a token is found by its consumed id, which is all that a guard's store, an edge function or a log knows of it.
-- Redeeming looks tokens up by it as well: how long a look-up takes depends on how far the sought value agrees with
-- those in the index, and that must tell nothing about secrets. An index on an expression needs no new column, so no
-- row is rewritten and none can disagree with its secret.
--
-- Locks, with two million tokens: nobody writes to tokens for about 6 s, while the index of 78 MB is built; others read.
-- CREATE INDEX CONCURRENTLY would let them write, and cannot run in a transaction. Where that wait is too long, build the
-- index beforehand by
--     CREATE UNIQUE INDEX CONCURRENTLY tokens_consumed_id_key
--         ON tokens (substring(sha256('mailroom/consumed\000'::bytea || secret) FROM 1 FOR 16));
-- and this step takes it over in some milliseconds.

BEGIN;

-- A body of standard SQL is bound to built-in functions when it is created, so that it needs no search path of its own,
-- which would keep it from being inlined, and a query with it from using the index.
CREATE FUNCTION mailroom_consumed_id(secret bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN substring(sha256('mailroom/consumed\000'::bytea || secret) FROM 1 FOR 16);

COMMENT ON FUNCTION mailroom_consumed_id(bytea) IS
    'Consumed id of a token: the first 16 bytes of SHA-256("mailroom/consumed", a zero byte, secret). Tells nothing about'
    ' the secret.';

-- An interrupted CREATE INDEX CONCURRENTLY leaves an index of that name which is never used.
DO $$
DECLARE
    built regclass := to_regclass('tokens_consumed_id_key');
BEGIN
    IF built IS NOT NULL AND NOT EXISTS (
        SELECT FROM pg_index
        WHERE indexrelid = built AND indrelid = 'tokens'::regclass AND indisvalid AND indisunique
            AND indexprs IS NOT NULL
    ) THEN
        RAISE EXCEPTION '% is not a valid unique index on the consumed ids of tokens', built
            USING ERRCODE = 'object_not_in_prerequisite_state',
                HINT = 'Drop it, and migrate again.';
    END IF;
END;
$$;

CREATE UNIQUE INDEX IF NOT EXISTS tokens_consumed_id_key
    ON tokens (substring(sha256('mailroom/consumed\000'::bytea || secret) FROM 1 FOR 16));

COMMENT ON INDEX tokens_consumed_id_key IS
    'Serves redeeming, and finding the token that a consumed id in a log or a store belongs to.';

COMMIT;

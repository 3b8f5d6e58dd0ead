-- Fault: codes came from random(), whose later values follow from a few earlier ones, and rounding made
-- '#####' of one in 200,000 and 00000 half as likely as the others. New codes come from pgcrypto's
-- gen_random_bytes(), each of the 100,000 as likely as any other.
--
-- Locks, with two million tokens: looks through tokens for 2 s beside everybody else, then has it to itself for some
-- milliseconds.

BEGIN;

-- Only five ASCII digits can be signed. Codes of the application's own making are not ours to replace, and the
-- constraint below would refuse the next one: better to stop before anything is changed.
DO $$
DECLARE
    foreign_code bigint;
BEGIN
    SELECT id INTO foreign_code FROM tokens WHERE code !~ '^[0-9]{5}$' AND code <> '#####' LIMIT 1;

    IF FOUND THEN
        RAISE EXCEPTION 'the code of token % is not five digits', foreign_code
            USING ERRCODE = 'check_violation',
                HINT = 'Mailroom signs codes of exactly five ASCII digits. Let the application insert such codes or'
                    ' none at all, delete these tokens or set their code to NULL, and migrate again.';
    END IF;
END;
$$;

CREATE FUNCTION generate_token_code() RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS $$
DECLARE
    bytes bytea;
    number integer;
BEGIN
    LOOP
        bytes := gen_random_bytes(3);
        number := get_byte(bytes, 0) * 65536 + get_byte(bytes, 1) * 256 + get_byte(bytes, 2);
        -- The largest multiple of 100,000 below 2^24: what lies above it would favour the codes up to 77215.
        EXIT WHEN number < 16700000;
    END LOOP;

    RETURN to_char(number % 100000, 'FM00000');
END;
$$;

-- Where new functions are not everybody's by default, inserting a token would otherwise need a right of its own.
GRANT EXECUTE ON FUNCTION generate_token_code() TO PUBLIC;

-- Whoever inserts a token need not have pgcrypto's schema on its search path, and cannot put a gen_random_bytes()
-- of its own before it.
DO $$
DECLARE
    pgcrypto_schema name := (
        SELECT nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
        WHERE extname = 'pgcrypto'
    );
BEGIN
    EXECUTE format(
        'ALTER FUNCTION generate_token_code() SET search_path = pg_catalog, %I, pg_temp', pgcrypto_schema
    );
END;
$$;

-- NOT VALID spares the table a scan under the exclusive lock; the next migration looks at the rows already there.
ALTER TABLE tokens
    ALTER COLUMN code SET DEFAULT generate_token_code(),
    ADD CONSTRAINT tokens_code_five_digits CHECK (code ~ '^[0-9]{5}$') NOT VALID;

COMMIT;

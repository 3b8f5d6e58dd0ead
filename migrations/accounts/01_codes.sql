-- Codes came from random(), whose later values follow from a few earlier ones, and rounding made
-- '#####' of one in 200,000 and 00000 half as likely as the others. New codes come from the
-- server's cryptographic generator, each of the 100,000 as likely as any other.

-- Only five ASCII digits can be signed. Codes of the application's own making are not ours to
-- replace, and the constraint below would refuse the next one: better to stop before anything is
-- changed.
DO $$
DECLARE
    foreign_code bigint;
BEGIN
    SELECT id INTO foreign_code
    FROM tokens
    WHERE code::text !~ '^[0-9]{5}$' AND code::text <> '#####'
    LIMIT 1;

    IF FOUND THEN
        RAISE EXCEPTION 'the code of token % is not five digits', foreign_code
            USING ERRCODE = 'check_violation',
                HINT = 'Mailroom signs codes of exactly five ASCII digits. Let the application '
                    'insert such codes or none at all, delete these tokens or set their code to '
                    'NULL, and migrate again.';
    END IF;
END;
$$;

-- Without a search path of its own, which every insert of a token would set: all names have their
-- schema.
CREATE FUNCTION generate_token_code() RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS $$
DECLARE
    number bigint;
BEGIN
    LOOP
        -- The first 32 bits of a random UUID are all random.
        number := ('x' OPERATOR(pg_catalog.||)
            pg_catalog.left(pg_catalog.gen_random_uuid()::pg_catalog.text, 8))::bit(32)::bigint;
        -- What lies above the largest multiple of 100,000 below 2^32 would favour the lower codes.
        EXIT WHEN number OPERATOR(pg_catalog.<) 4294900000;
    END LOOP;

    RETURN pg_catalog.to_char(number OPERATOR(pg_catalog.%) 100000, 'FM00000');
END;
$$;

-- Where new functions are not everybody's by default, inserting a token would otherwise need a
-- right of its own.
GRANT EXECUTE ON FUNCTION generate_token_code() TO PUBLIC;

COMMENT ON FUNCTION generate_token_code() IS
    'Five decimal digits from a cryptographic generator, uniformly distributed.';

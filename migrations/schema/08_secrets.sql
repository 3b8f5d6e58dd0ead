-- Secrets and codes, and what is kept of them.

-- Bodies of standard SQL are bound when they are created and need no search path, which would keep
-- them from being inlined.
CREATE FUNCTION mailroom.consumed_id(secret bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN substring(sha256('mailroom/consumed\000'::bytea || secret) FROM 1 FOR 16);

COMMENT ON FUNCTION mailroom.consumed_id(bytea) IS
    'Consumed id of a token: the first 16 bytes of SHA-256("mailroom/consumed", a zero byte, '
    'secret). Tells nothing about the secret.';

-- In a database with another encoding than UTF-8 the digits have the same bytes.
CREATE FUNCTION mailroom.code_hash(secret bytea, code text) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN sha256('mailroom/code\000'::bytea || secret || decode(replace(code, '\', '\\'), 'escape'));

COMMENT ON FUNCTION mailroom.code_hash(bytea, text) IS
    'SHA-256("mailroom/code", a zero byte, secret, code). Five digits are found by trying, but not '
    'without the 32 bytes of the secret.';

-- A random UUID has 122 bits of the server's cryptographic generator; two have 244, more than
-- anybody can try. The hash spreads them over all bytes. A third UUID would cost a registration as
-- much as another index.
CREATE FUNCTION mailroom.generate_secret() RETURNS bytea
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

COMMENT ON FUNCTION mailroom.generate_secret() IS '32 unguessable bytes.';

CREATE FUNCTION mailroom.generate_code(digits integer) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    count bigint := 10::bigint ^ digits;
    number bigint;
BEGIN
    LOOP
        -- The first 32 bits of a random UUID are all random.
        number := ('x' || left(gen_random_uuid()::text, 8))::bit(32)::bigint;
        -- What lies above the largest multiple would favour the lower codes.
        EXIT WHEN number < (1::bigint << 32) / count * count;
    END LOOP;

    RETURN lpad((number % count)::text, digits, '0');
END;
$$;

COMMENT ON FUNCTION mailroom.generate_code(integer) IS
    'Decimal digits from a cryptographic generator, uniformly distributed; 5 to 8.';

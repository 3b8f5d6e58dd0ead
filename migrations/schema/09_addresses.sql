-- Addresses in the one form by which they are compared, and tags of languages.

-- In a database with another encoding than UTF-8 a text may have no UTF-8 form; the row is sent as
-- a byte that is none, which no line takes, so that the token is given up and the others of its
-- batch go out.
CREATE FUNCTION mailroom.to_utf8(value text) RETURNS bytea
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN convert_to(value, 'UTF8');
EXCEPTION WHEN untranslatable_character OR character_not_in_repertoire THEN
    -- Not as a literal, whose backslash means another byte without standard_conforming_strings.
    RETURN decode('ff', 'hex');
END;
$$;

COMMENT ON FUNCTION mailroom.to_utf8(text) IS
    'Text in UTF-8, or one byte that is not, if it has no such form.';

-- Not stable, as the database's encoding never changes: so that a plan has its answer, and what
-- calls it becomes a part of other statements.
CREATE FUNCTION mailroom.is_utf8() RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN getdatabaseencoding() = 'UTF8';

COMMENT ON FUNCTION mailroom.is_utf8() IS 'Whether the encoding of the database is UTF-8.';

CREATE FUNCTION mailroom.code_points(utf8 bytea) RETURNS integer[]
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    byte integer;
    point integer;
    lowest integer;
    missing integer := 0;
    points integer[] := '{}';
BEGIN
    FOR place IN 0 .. octet_length(utf8) - 1 LOOP
        byte := get_byte(utf8, place);

        IF missing > 0 THEN
            point := CASE WHEN byte BETWEEN 128 AND 191 THEN point * 64 + byte - 128 END;
            missing := missing - 1;
        ELSE
            CASE
                WHEN byte < 128 THEN point := byte; lowest := 0; missing := 0;
                WHEN byte < 224 THEN point := byte - 192; lowest := 128; missing := 1;
                WHEN byte < 240 THEN point := byte - 224; lowest := 2048; missing := 2;
                ELSE point := byte - 240; lowest := 65536; missing := 3;
            END CASE;
        END IF;

        IF point IS NULL OR point < 0 OR missing = 0 AND point < lowest THEN
            RETURN NULL;
        ELSIF missing = 0 THEN
            points := points || point;
        END IF;
    END LOOP;

    RETURN CASE WHEN missing = 0 THEN points END;
END;
$$;

COMMENT ON FUNCTION mailroom.code_points(bytea) IS
    'The characters of a text in UTF-8, by their numbers in Unicode; null if it is not UTF-8.';

-- The letters that have a capital: of ASCII, Latin, Greek, Cyrillic and Armenian. A function of a
-- locale knows more, but other ones in each database, and what is suppressed must not depend on it.
CREATE FUNCTION mailroom.fold_letter(letter integer) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN letter <@ '{[65,91),[192,215),[216,223),[913,930),[931,940),[1040,1072)}'::int4multirange
    THEN letter + 32
    WHEN letter < 256 THEN letter
    WHEN letter % 2 = 0
        AND letter <@ (
            '{[256,304),[308,312),[330,376),[478,496),[504,544),[546,564),[1120,1154),[1162,1216),'
            '[1232,1328),[7680,7830),[7840,7936)}'
        )::int4multirange
    THEN letter + 1
    WHEN letter % 2 = 1
        AND letter <@ '{[313,319),[321,329),[377,383),[461,477),[1217,1231)}'::int4multirange
    THEN letter + 1
    WHEN letter = 376 THEN 255
    WHEN letter = 902 THEN 940
    WHEN letter BETWEEN 904 AND 906 THEN letter + 37
    WHEN letter = 908 THEN 972
    WHEN letter BETWEEN 910 AND 911 THEN letter + 63
    WHEN letter BETWEEN 1024 AND 1039 THEN letter + 80
    WHEN letter BETWEEN 1329 AND 1366 THEN letter + 48
    ELSE letter
END;

COMMENT ON FUNCTION mailroom.fold_letter(integer) IS
    'The small letter of a capital, and any other character as it is; by their numbers in Unicode.';

CREATE FUNCTION mailroom.punycode(label integer[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    digits constant text := 'abcdefghijklmnopqrstuvwxyz0123456789';
    written text := (
        SELECT coalesce(string_agg(chr(t.point), '' ORDER BY nth), '')
        FROM unnest(label) WITH ORDINALITY AS t (point, nth)
        WHERE t.point < 128
    );
    basic constant integer := length(written);
    handled integer := basic;
    lowest integer := 128;
    delta integer := 0;
    bias integer := 72;
    next_point integer;
    point integer;
    rest integer;
    threshold integer;
    step integer;
BEGIN
    IF basic > 0 THEN
        written := written || '-';
    END IF;

    WHILE handled < cardinality(label) LOOP
        next_point := (SELECT min(t.point) FROM unnest(label) AS t (point) WHERE t.point >= lowest);
        delta := delta + (next_point - lowest) * (handled + 1);
        lowest := next_point;

        FOREACH point IN ARRAY label LOOP
            IF point < lowest THEN
                delta := delta + 1;
            ELSIF point = lowest THEN
                -- The number of steps to this place, with digits of variable weight.
                rest := delta;
                step := 36;

                LOOP
                    threshold := greatest(1, least(step - bias, 26));
                    EXIT WHEN rest < threshold;
                    written := written
                        || substr(digits, threshold + (rest - threshold) % (36 - threshold) + 1, 1);
                    rest := (rest - threshold) / (36 - threshold);
                    step := step + 36;
                END LOOP;

                written := written || substr(digits, rest + 1, 1);

                -- How large the next number is likely to be.
                delta := delta / CASE WHEN handled = basic THEN 700 ELSE 2 END;
                handled := handled + 1;
                delta := delta + delta / handled;
                bias := 0;

                WHILE delta > 455 LOOP
                    delta := delta / 35;
                    bias := bias + 36;
                END LOOP;

                bias := bias + 36 * delta / (delta + 38);
                delta := 0;
            END IF;
        END LOOP;

        delta := delta + 1;
        lowest := lowest + 1;
    END LOOP;

    RETURN written;
END;
$$;

COMMENT ON FUNCTION mailroom.punycode(integer[]) IS
    'A label of a domain in ASCII, as RFC 3492 writes it, without the prefix.';

CREATE FUNCTION mailroom.to_ascii_label(label integer[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_ascii constant boolean := 128 > ALL (label);
    written text;
BEGIN
    -- What begins as an encoded label does is none if it has other characters.
    IF label[1] = 45
        OR label[cardinality(label)] = 45
        OR NOT is_ascii AND label[1:4] = ARRAY[120, 110, 45, 45]
    THEN
        RETURN NULL;
    END IF;

    IF is_ascii THEN
        written := (
            SELECT string_agg(chr(point), '' ORDER BY nth)
            FROM unnest(label) WITH ORDINALITY AS t (point, nth)
        );
    ELSE
        written := 'xn--' || mailroom.punycode(label);
    END IF;

    RETURN CASE WHEN length(written) <= 63 THEN written END;
END;
$$;

COMMENT ON FUNCTION mailroom.to_ascii_label(integer[]) IS
    'A label of a domain in small letters, in ASCII; null if it cannot be one.';

-- Who encodes a domain maps its characters before (UTS 46): full-width letters and other dots are
-- replaced, invisible characters left out. So that one mailbox has one form, addresses have only
-- characters that are mapped to themselves, and capitals. These are letters, marks and digits of
-- scripts in use, and emoji; the sender compares its own mapping with the same form.
CREATE FUNCTION mailroom.map_address(email text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    stable constant int4multirange :=
        '{[183,184),[192,304),[305,306),[308,319),[321,329),[330,383),[417,418),[432,433),'
        '[461,497),[501,502),[504,544),[545,564),[592,672),[768,832),[891,894),[902,903),'
        '[904,975),[1024,1216),[1217,1367),[1369,1415),[1416,1419),[1421,1525),[1542,1564),'
        '[1565,1653),[1657,1757),[1758,1792),[1872,1920),[2208,2274),[2275,2392),[2400,2520),'
        '[2528,2611),[2613,2614),[2616,2642),[2652,2653),[2662,2904),[2911,3635),[3636,3763),'
        '[3764,3802),[3806,3852),[3853,3907),[3908,3917),[3918,3922),[3923,3927),[3928,3932),'
        '[3933,3945),[3946,3955),[3956,3957),[3962,3969),[3970,3987),[3988,3997),[3998,4002),'
        '[4003,4007),[4008,4012),[4013,4025),[4026,4256),[4304,4348),[4349,4352),[4608,5018),'
        '[6016,6068),[6070,6138),[6400,6688),[6912,7296),[7376,7419),[7680,7834),[7836,7838),'
        '[7839,7936),[9728,10240),[12293,12336),[12353,12443),[12445,12447),[12448,12543),'
        '[12549,12592),[13312,42183),[43136,43823),[43968,55204),[127744,129787),'
        '[131072,192094),[196608,205824)}';
    -- PostgreSQL composes characters in UTF-8 alone.
    -- Of these none is composed of others that stand here, too.
    without_marks constant int4multirange :=
        '{[183,184),[192,768),[880,1155),[1162,1424),[1488,1515),[1569,1611),[3585,3633),'
        '[3634,3636),[3648,3655),[12353,12441),[12445,12544),[13312,40960),[44032,55204)}';
    of_local_part constant int4multirange :=
        '{[33,34),[35,40),[42,44),[45,58),[61,62),[63,64),[65,91),[94,127)}';
    of_domain constant int4multirange := '{[45,47),[48,58),[95,96),[97,123)}';
    is_utf8 constant boolean := mailroom.is_utf8();
    points integer[];
    place integer;
    last_place integer;
    folded text;
    local_part text;
    domain text;
    label text;
BEGIN
    IF octet_length(email) > 254 THEN
        RETURN NULL;
    END IF;

    IF is_utf8 THEN
        points := ARRAY(
            SELECT mailroom.fold_letter(ascii(letter))
            FROM string_to_table(email, NULL) WITH ORDINALITY AS t (letter, nth)
            ORDER BY nth
        );
    ELSE
        points := mailroom.code_points(mailroom.to_utf8(email));
        points := ARRAY(
            SELECT mailroom.fold_letter(point) FROM unnest(points) WITH ORDINALITY AS t (point, nth)
                ORDER BY nth
        );
    END IF;

    place := array_position(points, 64);

    IF place IS NULL OR EXISTS (
        SELECT
        FROM unnest(points) WITH ORDINALITY AS t (point, nth)
        WHERE nth <> place AND NOT (
            CASE
                WHEN point >= 128 THEN point <@ stable AND (is_utf8 OR point <@ without_marks)
                WHEN nth < place THEN point <@ of_local_part
                ELSE point <@ of_domain
            END
        )
    ) THEN
        RETURN NULL;
    END IF;

    -- Servers do not map what stands before the @. Its letters are folded all the same, where it
    -- can be written in this encoding.
    IF is_utf8 THEN
        folded := (
            SELECT string_agg(chr(point), '' ORDER BY nth)
            FROM unnest(points) WITH ORDINALITY AS t (point, nth)
        );
        local_part := split_part(folded, '@', 1);
    ELSE
        local_part := lower(split_part(email, '@', 1) COLLATE "C");
    END IF;

    -- Dots without letters between them need quotes, which count.
    IF local_part = ''
        OR octet_length(convert_to(local_part, 'UTF8'))
            + (CASE WHEN local_part ~ '^[.]|[.][.]|[.]$' THEN 2 ELSE 0 END) > 64
        OR is_utf8 AND NOT folded IS NFC NORMALIZED
    THEN
        RETURN NULL;
    END IF;

    WHILE place IS NOT NULL LOOP
        last_place := place;
        place := array_position(points, 46, last_place + 1);
        label := mailroom.to_ascii_label(points[last_place + 1:coalesce(place,
            cardinality(points) + 1) - 1]);

        IF label IS NULL THEN
            RETURN NULL;
        END IF;

        domain := coalesce(domain || '.', '') || label;
    END LOOP;

    RETURN CASE
        WHEN octet_length(convert_to(local_part, 'UTF8')) + 1 + length(domain) <= 254
        THEN local_part || '@' || domain
    END;
END;
$$;

COMMENT ON FUNCTION mailroom.map_address(text) IS 'As normal_address(), for any address.';

-- Most addresses are of ASCII, and need no more than small letters. Mail servers tell local parts
-- apart by case in theory only, and providers report addresses in lower case.
CREATE FUNCTION mailroom.normal_address(email text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN octet_length(email) = length(email) AND (mailroom.is_utf8() OR email !~ E'[^\\x01-\\x7f]')
    THEN lower(email COLLATE "C")
    ELSE mailroom.map_address(email)
END;

COMMENT ON FUNCTION mailroom.normal_address(text) IS
    'The form of an address by which suppressions are kept and looked up: small letters, and the '
    'domain in ASCII. Null for some of what is no address.';

-- Strict enough that no sender takes it for another one; whether it can be reached is for its mail
-- server to say. In a short one no part can be too long.
CREATE FUNCTION mailroom.is_address(email text) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN octet_length(email) <= 64
        AND email ~ (
            '^[A-Za-z0-9!#$%&''*+/=?^_`{|}~-]+(?:[.][A-Za-z0-9!#$%&''*+/=?^_`{|}~-]+)*'
            '@[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?'
            '(?:[.][A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?)*$'
        )
    THEN true
    ELSE mailroom.map_address(email) IS NOT NULL
END;

COMMENT ON FUNCTION mailroom.is_address(text) IS 'Whether a mail can be addressed to this.';

-- Accounts have whatever an application lets in. What has no @ no sender takes for somebody's
-- address; all else it may read as another one.
CREATE FUNCTION mailroom.is_addressable(email text) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN email NOT LIKE '%@%' OR mailroom.is_address(email);

COMMENT ON FUNCTION mailroom.is_addressable(text) IS
    'Whether an account''s token may be handed to a sender: its email is an address, or none that '
    'could be taken for somebody else''s.';

CREATE FUNCTION mailroom.is_language(tag text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN tag ~ '^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}$';

COMMENT ON FUNCTION mailroom.is_language(text) IS
    'Whether this is a language''s tag, such as de or pt-BR, as in BCP 47.';

-- Browsers, locales and databases write more than a template is chosen by. A mail in the sender's
-- own language is better than none.
CREATE FUNCTION mailroom.language_tag(given text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN mailroom.is_language(given) THEN given
    ELSE substring(
        translate(left(given, 100), '_', '-')
        FROM '^[[:space:]]*([A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3})(?![A-Za-z0-9])'
    )
END;

COMMENT ON FUNCTION mailroom.language_tag(text) IS
    'The language''s tag in this, without what follows it: pt-BR of pt_BR.UTF-8 or '
    'pt-BR-u-nu-latn; null if it does not begin with one.';

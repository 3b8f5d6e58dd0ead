-- A table of users that is there already, with bigint keys, for which Mailroom sends mails. To be
-- adapted: the table's name, its columns, and what the predicates ask. Nothing of the table is
-- changed but a trigger that is added. It may be executed again. Mailroom's schema is there before.

-- Tables that are there already stay as they are.
CREATE TABLE IF NOT EXISTS users (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    email text NOT NULL UNIQUE,
    password_salt bytea,
    password_hash bytea,
    verified_at timestamptz
);

-- Who is signed in.
CREATE TABLE IF NOT EXISTS sessions (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id bigint NOT NULL REFERENCES users ON DELETE CASCADE
);

CREATE INDEX IF NOT EXISTS sessions_user_id_idx ON sessions (user_id);

-- Who may get and use a mail, and the present address. A redemption locks the users it asks for.
CREATE OR REPLACE FUNCTION mailed_users(subject_ids text[], is_redemption boolean)
RETURNS TABLE (subject_id text, email text, name text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- What is no id is nobody, and keeps nobody else waiting.
    ids bigint[] := ARRAY(SELECT id::bigint FROM unnest(subject_ids) AS id
        WHERE CASE WHEN id ~ '^(0|-?[1-9][0-9]{0,18})$'
            THEN id::numeric BETWEEN -9223372036854775808 AND 9223372036854775807 END);
BEGIN
    IF is_redemption THEN
        PERFORM FROM public.users WHERE id = ANY (ids) FOR NO KEY UPDATE;
    END IF;
    RETURN QUERY SELECT users.id::text, users.email, NULL
        FROM public.users WHERE id = ANY (ids);
END;
$$;

-- It tells addresses, so that nobody else may call it. Its caller is the owner of Mailroom's
-- functions: where that is another role than this one, GRANT EXECUTE to that role.
REVOKE ALL ON FUNCTION mailed_users FROM PUBLIC;

UPDATE mailroom.actions SET eligibility = 'public.mailed_users(text[], boolean)'
    WHERE name IN ('activate', 'recover', 'sign_in');

-- A changed address ends the tokens that prove the former one; the mails and links of who is
-- deleted end.
CREATE OR REPLACE FUNCTION mailed_user_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM mailroom.cancel_subject(OLD.id::text);
    ELSIF NEW.email <> OLD.email THEN
        PERFORM mailroom.cancel_subject(NEW.id::text, true);
    END IF;
    RETURN NULL;
END;
$$;

-- It runs with the rights of its owner: nobody else may attach it to a table of their own.
REVOKE ALL ON FUNCTION mailed_user_changed FROM PUBLIC;

CREATE OR REPLACE TRIGGER mailed_user_changed AFTER DELETE OR UPDATE OF email ON users
    FOR EACH ROW EXECUTE FUNCTION mailed_user_changed();

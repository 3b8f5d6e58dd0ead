-- A product's own table of users, with uuid keys and in a schema of its own, for which Mailroom
-- sends mails. To be adapted: the table, and what the predicate asks. Execute it as a role that
-- owns the table and may call enqueue, cancel_subject and recheck; the UPDATE of actions as the
-- owner of Mailroom, if that is another role.

CREATE SCHEMA shop;

CREATE TABLE shop.users (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    email text NOT NULL UNIQUE,
    name text NOT NULL,
    language text,
    verified_at timestamptz,
    blocked boolean NOT NULL DEFAULT false
);

-- The predicate of eligibility: who may get and use mails, and their present address. A redemption
-- locks the users it asks for.
CREATE FUNCTION shop.unblocked_users(subject_ids text[], is_redemption boolean)
RETURNS TABLE (subject_id text, email text, name text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- What is no id is nobody, and keeps nobody else waiting.
    ids uuid[] := ARRAY(
        SELECT id::uuid FROM unnest(subject_ids) AS id
        WHERE id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    );
BEGIN
    IF is_redemption THEN
        PERFORM FROM shop.users WHERE id = ANY (ids) FOR NO KEY UPDATE;
    END IF;
    RETURN QUERY SELECT users.id::text, users.email, users.name FROM shop.users WHERE id = ANY (ids)
        AND NOT blocked;
END;
$$;

-- It tells addresses, so that nobody else may call it. Its caller is the owner of Mailroom's
-- functions: where that is another role than this one, GRANT EXECUTE,
-- and USAGE ON SCHEMA shop, to that role.
REVOKE ALL ON FUNCTION shop.unblocked_users FROM PUBLIC;

UPDATE mailroom.actions SET eligibility = 'shop.unblocked_users(text[], boolean)'
    WHERE name IN ('activate', 'recover', 'sign_in');

-- A changed address ends the tokens that prove the former one; who is no longer blocked gets what
-- waits; the mails and links of who is deleted end. mailroom.forget() in place of cancel_subject()
-- also erases what Mailroom keeps of them.
CREATE FUNCTION shop.user_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM mailroom.cancel_subject(OLD.id::text);
        RETURN NULL;
    END IF;
    IF NEW.email <> OLD.email THEN
        PERFORM mailroom.cancel_subject(NEW.id::text, true);
    END IF;
    IF OLD.blocked AND NOT NEW.blocked THEN
        PERFORM mailroom.recheck(NEW.id::text);
    END IF;
    RETURN NULL;
END;
$$;

-- It runs with the rights of its owner: nobody else may attach it to a table of their own.
REVOKE ALL ON FUNCTION shop.user_changed FROM PUBLIC;

CREATE TRIGGER user_changed AFTER DELETE OR UPDATE OF email, blocked ON shop.users
    FOR EACH ROW EXECUTE FUNCTION shop.user_changed();

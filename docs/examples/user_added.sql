-- After users.sql: every new user gets a mail, whichever program inserts the row.

CREATE FUNCTION shop.user_added() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM mailroom.enqueue('activate', NEW.email, NEW.name, NEW.id::text,
        language => NEW.language);
    RETURN NULL;
END;
$$;

-- It runs with the rights of its owner: nobody else may attach it to a table of their own.
REVOKE ALL ON FUNCTION shop.user_added FROM PUBLIC;

CREATE TRIGGER user_added AFTER INSERT ON shop.users
    FOR EACH ROW WHEN (NEW.verified_at IS NULL) EXECUTE FUNCTION shop.user_added();

-- A product's table `users` keeps an account for each user by trigger: the account's login is the user's id.
-- To be adapted: names of table and columns, and the schema that the functions name in their search path.

CREATE TABLE users (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    email varchar(254) NOT NULL UNIQUE,
    verified boolean NOT NULL DEFAULT false,
    blocked boolean NOT NULL DEFAULT false
);

CREATE FUNCTION keep_account() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    wanted account_status := CASE WHEN NEW.blocked THEN 'suspended' WHEN NEW.verified THEN 'active' ELSE 'provisioned' END;
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO accounts (email, login, status) VALUES (NEW.email, NEW.id::text, wanted);
    ELSIF TG_OP = 'UPDATE' THEN
        UPDATE accounts SET email = NEW.email WHERE login = NEW.id::text AND email <> NEW.email;
        UPDATE accounts SET status = wanted WHERE login = NEW.id::text AND status <> wanted;
    ELSE
        DELETE FROM accounts WHERE login = OLD.id::text;
    END IF;
    RETURN NULL;
END;
$$;

CREATE TRIGGER keep_account AFTER INSERT OR DELETE OR UPDATE OF email, verified, blocked ON users
    FOR EACH ROW EXECUTE FUNCTION keep_account();

CREATE FUNCTION verify_user() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    UPDATE users SET verified = true WHERE id::text = NEW.login AND NOT verified;
    RETURN NULL;
END;
$$;

CREATE TRIGGER verify_user AFTER UPDATE OF status ON accounts
    FOR EACH ROW WHEN (NEW.status = 'active' AND OLD.status = 'provisioned') EXECUTE FUNCTION verify_user();

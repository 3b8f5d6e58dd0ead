-- A partitioned table of customers, for which Mailroom sends mails. An UPDATE that moves a row to
-- another partition deletes and inserts it there, for which triggers FOR EACH ROW fire: a mail
-- would go out again. So these are FOR EACH STATEMENT. They fire for statements that name this
-- table, not for those that name a partition.

CREATE TABLE customers (
    id bigint GENERATED ALWAYS AS IDENTITY,
    region text NOT NULL,
    email text NOT NULL,
    blocked boolean NOT NULL DEFAULT false,
    PRIMARY KEY (id, region)
) PARTITION BY LIST (region);

CREATE TABLE customers_north PARTITION OF customers FOR VALUES IN ('north');
CREATE TABLE customers_south PARTITION OF customers FOR VALUES IN ('south');

CREATE FUNCTION unblocked_customers(subject_ids text[], is_redemption boolean)
RETURNS TABLE (subject_id text, email text, name text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- What is no id is nobody.
    ids bigint[] := ARRAY(SELECT id::bigint FROM unnest(subject_ids) AS id
        WHERE CASE WHEN id ~ '^(0|-?[1-9][0-9]{0,18})$'
            THEN id::numeric BETWEEN -9223372036854775808 AND 9223372036854775807 END);
BEGIN
    IF is_redemption THEN
        PERFORM FROM public.customers WHERE id = ANY (ids) FOR NO KEY UPDATE;
    END IF;
    RETURN QUERY SELECT customers.id::text, customers.email, NULL
        FROM public.customers WHERE id = ANY (ids) AND NOT blocked;
END;
$$;

REVOKE ALL ON FUNCTION unblocked_customers FROM PUBLIC;

UPDATE mailroom.actions SET eligibility = 'public.unblocked_customers(text[], boolean)'
    WHERE name IN ('activate', 'recover', 'sign_in');

CREATE FUNCTION customers_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM mailroom.enqueue('activate', email, subject_id => id::text) FROM present;
    ELSIF TG_OP = 'UPDATE' THEN
        PERFORM mailroom.cancel_subject(id::text, true) FROM former JOIN present USING (id)
            WHERE former.email <> present.email;
        PERFORM mailroom.recheck(id::text) FROM former JOIN present USING (id) WHERE former.blocked
            AND NOT present.blocked;
    ELSE
        PERFORM mailroom.cancel_subject(id::text) FROM former;
    END IF;
    RETURN NULL;
END;
$$;

-- It runs with the rights of its owner: nobody else may attach it to a table of their own.
REVOKE ALL ON FUNCTION customers_changed FROM PUBLIC;

CREATE TRIGGER customers_inserted AFTER INSERT ON customers
    REFERENCING NEW TABLE AS present FOR EACH STATEMENT EXECUTE FUNCTION customers_changed();
CREATE TRIGGER customers_updated AFTER UPDATE ON customers
    REFERENCING OLD TABLE AS former NEW TABLE AS present FOR EACH STATEMENT
        EXECUTE FUNCTION customers_changed();
CREATE TRIGGER customers_deleted AFTER DELETE ON customers
    REFERENCING OLD TABLE AS former FOR EACH STATEMENT EXECUTE FUNCTION customers_changed();

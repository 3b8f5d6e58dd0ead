-- The schema `mailroom`: mails with one-time links to the people of any table. An application
-- enqueues a mail in its own transaction; nothing in this schema refers to a table outside of it.
--
-- Queue in, log out: where a token stands is where its row is, in one of `queue`, `leases`,
-- `handed_over` and `dead_letters`, or in none of them when it is done. The secret is in that row
-- and nowhere else, so that it is gone when the mail is sent. What happened is appended to
-- `delivery_log`.
--
-- Functions that others may call run with the rights of their owner, so that nobody needs rights on
-- the tables. Nothing on a caller's search path can step in for a name in them: it is set to
-- pg_catalog, and Mailroom's own names have their schema. Polymorphic functions, for which one for
-- exactly these types would be a better match, are named with their schema.
--
-- Plans must not depend on how full the tables were when they were planned: functions that look
-- rows up switch off what would read a whole table, since an index is right in every case.

SET LOCAL client_min_messages = warning;
-- Functions and operators are PostgreSQL's own here, whatever is on the caller's path.
SET LOCAL search_path = pg_catalog, pg_temp;

-- Whoever may not create schemas can be given one; IF NOT EXISTS asks for the right all the same.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'mailroom') THEN
        CREATE SCHEMA mailroom;
    END IF;
END;
$$;

-- What is in it has rights of its own. Whoever may make something in it can put a function beside
-- one of Mailroom's that fits a call better, so that nobody keeps that right: neither by default
-- privileges nor from whoever made the schema.
DO $$
DECLARE
    revocation text;
BEGIN
    FOR revocation IN
        SELECT format(
            'REVOKE ALL ON SCHEMA mailroom FROM %s CASCADE',
            CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END
        )
        FROM pg_namespace CROSS JOIN LATERAL aclexplode(nspacl)
        WHERE nspname = 'mailroom'
            AND pg_has_role(nspowner, 'USAGE')
            AND CASE grantee WHEN 0 THEN true ELSE NOT pg_has_role(grantee, nspowner, 'MEMBER') END
        GROUP BY grantee
    LOOP
        EXECUTE revocation;
    END LOOP;
END;
$$;

GRANT USAGE ON SCHEMA mailroom TO PUBLIC;

COMMENT ON SCHEMA mailroom IS
    'Mailroom: mails with one-time links, from their request to their hand-over to a sender.';

-- The only clock of the queue. A function, so that a test can turn it: collectors have no say in
-- what time it is.
CREATE FUNCTION mailroom.clock() RETURNS timestamptz
LANGUAGE sql VOLATILE
RETURN clock_timestamp();

COMMENT ON FUNCTION mailroom.clock() IS 'What time it is for the queue.';

-- Null where this may not be asked: such a queue is bound to no cluster.
CREATE FUNCTION mailroom.cluster_identifier() RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT system_identifier FROM pg_catalog.pg_control_system());
EXCEPTION WHEN insufficient_privilege THEN
    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION mailroom.cluster_identifier() IS
    'What tells this cluster from others, but not from its physical copies; '
    'null if its owner may not know.';

-- Called at the end of each step, whose objects are those that its transaction has made. A part of
-- it that can be rolled back alone, as psql's ON_ERROR_ROLLBACK and the exception block of an event
-- trigger make one, writes with an id of its own, which is younger than the transaction's. The
-- program executes this body for the base schema and for the table that records steps, too.
CREATE FUNCTION mailroom.revoke_default_privileges() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    revocation text;
BEGIN
    FOR revocation IN
        SELECT format(
            'REVOKE ALL ON %s %s FROM %s',
            made.kind, made.name, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END
        )
        FROM (
            SELECT 'ROUTINE', pg_proc.oid::regprocedure::text, proowner, proacl
            FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace
            WHERE nspname = 'mailroom' AND age(pg_proc.xmin) <= 0
            UNION ALL
            SELECT
                CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
                pg_class.oid::regclass::text, relowner, relacl
            FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
            WHERE nspname = 'mailroom'
                AND relkind IN ('r', 'v', 'S')
                -- Not by its row in pg_class, which is written anew where a table is altered: that
                -- one keeps the rights that it has. The row of its type and, of a sequence, those
                -- of its columns are not.
                AND (
                    EXISTS (SELECT FROM pg_type WHERE pg_type.oid = reltype
                        AND age(pg_type.xmin) <= 0)
                    OR relkind = 'S'
                    AND EXISTS (
                        SELECT FROM pg_attribute
                        WHERE attrelid = pg_class.oid AND attnum = 1
                            AND age(pg_attribute.xmin) <= 0
                    )
                )
        ) AS made (kind, name, owner, acl)
        CROSS JOIN LATERAL aclexplode(made.acl)
        -- What everybody may call has no rights of its owner, or is revoked beside it.
        WHERE grantee <> made.owner AND (grantee <> 0::oid OR made.kind <> 'ROUTINE')
    LOOP
        EXECUTE revocation;
    END LOOP;
END;
$$;

COMMENT ON FUNCTION mailroom.revoke_default_privileges() IS
    'Takes back what ALTER DEFAULT PRIVILEGES gives others of what this transaction has made, as '
    'on hosted servers.';

-- Called after it, for whatever an event trigger or a client has granted meanwhile. By itself: the
-- program executes that body also before this schema is made.
CREATE FUNCTION mailroom.refuse_public_definers() RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    everybodys text := (
        SELECT string_agg(pg_proc.oid::regprocedure::text, ', ')
        FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace
        WHERE nspname = 'mailroom'
            AND prosecdef
            AND pg_has_role(proowner, 'USAGE')
            AND has_function_privilege('public'::name, pg_proc.oid, 'EXECUTE')
    );
BEGIN
    IF everybodys IS NOT NULL THEN
        RAISE EXCEPTION 'everybody may execute %', everybodys
            USING ERRCODE = 'insufficient_privilege',
                HINT = 'These run with the rights of their owner. REVOKE EXECUTE ON ALL ROUTINES '
                    'IN SCHEMA mailroom FROM PUBLIC, find what grants it, and migrate again.';
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.refuse_public_definers() IS
    'For migrations: fails where everybody may execute a function that runs with the rights of its '
    'owner.';

-- For migrations. Others wait behind a lock that is waited for. So this waits for a tenth of a
-- second, lets all pass and tries again, for as long as lock_timeout allows, or five seconds. Those
-- who lock the tables in another order, as whoever uses a token locks it before its account, wait
-- no longer than that.
CREATE FUNCTION mailroom.lock_briefly(VARIADIC tables regclass[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    limit_of_all text := current_setting('lock_timeout');
    ends_at timestamptz := clock_timestamp()
        + CASE limit_of_all WHEN '0' THEN '5s' ELSE limit_of_all END::interval;
BEGIN
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '100ms', true);
            EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', array_to_string(tables, ', '));
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF clock_timestamp() > ends_at THEN
                RAISE;
            END IF;
        END;

        PERFORM pg_sleep(0.05 + 0.1 * random());
    END LOOP;

    PERFORM set_config('lock_timeout', limit_of_all, true);
END;
$$;

COMMENT ON FUNCTION mailroom.lock_briefly(regclass[]) IS
    'For migrations: locks tables exclusively, and lets others pass while it cannot.';

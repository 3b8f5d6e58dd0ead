-- Who may get and use mails of an action, by a function that the application names.

-- Volatile, so that no plan puts the body of a function in the place of its call.
CREATE FUNCTION mailroom.refuse_predicate(predicate text) RETURNS text[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION
        '% is no SECURITY DEFINER function that returns rows (subject_id text, email text, '
        'name text)', predicate
        USING ERRCODE = 'object_not_in_prerequisite_state';
END;
$$;

COMMENT ON FUNCTION mailroom.refuse_predicate(text) IS
    'Says that a function cannot be asked who is eligible.';

-- Looked up for each call: whoever owns the function may have made it anew since it was named. Its
-- definition is looked at once more when its arguments are computed, just before it runs, and twice
-- there: the second time finds everything in the session's caches, and the call most likely, too.
-- The flag has its type, so that no overload of other types is called.
CREATE FUNCTION mailroom.predicate_call(predicate text, is_redemption boolean) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    callable oid := predicate::regprocedure;
BEGIN
    IF NOT mailroom.is_predicate(callable) THEN
        PERFORM mailroom.refuse_predicate(predicate);
    END IF;

    RETURN format(
        '%1$s(
            CASE WHEN mailroom.is_definer(pg_catalog.pg_get_functiondef(%2$s))
                AND mailroom.is_definer(pg_catalog.pg_get_functiondef(%2$s))
            THEN $1 ELSE mailroom.refuse_predicate(%3$L) END,
            %4$L::pg_catalog.bool
        )',
        callable::regproc, callable, predicate, is_redemption
    );
END;
$$;

COMMENT ON FUNCTION mailroom.predicate_call(text, boolean) IS
    'SQL that asks a function of eligibility for the subjects $1, with the rights of its own '
    'owner.';

-- The type is looked at beside the value: a function that was made anew just now could return
-- another one, with a cast of its owner's that would run with the rights of Mailroom's owner.
CREATE FUNCTION mailroom.text_column(name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN format(
    'CASE WHEN pg_catalog.pg_typeof(%1$I) OPERATOR(pg_catalog.=) ''text''::pg_catalog.regtype'
        ' THEN %1$I::pg_catalog.text END AS %1$I',
    name
);

COMMENT ON FUNCTION mailroom.text_column(text) IS
    'SQL for a column of what a function of eligibility returns: null unless it is a text.';

-- In a block of its own, so that an error of the application's function is the mail's alone; a lock
-- that it waits for, a failed assertion and the caller's statement_timeout are errors, too. Once
-- one has taken so long, the others are not asked. It may join as it likes, whatever its caller's
-- plan must not. Fewer rows are declared than claims pick, so that their plan hashes the answers.
CREATE FUNCTION mailroom.ask_eligibility(predicate text, subject_ids text[], OUT subject_id text,
    OUT email text, OUT name text, OUT fault text)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE ROWS 2
SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off
SET enable_nestloop = on SET enable_mergejoin = on SET lock_timeout = 300 AS $$
DECLARE
    answered text[];
    emails text[];
    names text[];
BEGIN
    IF clock_timestamp() > statement_timestamp() + interval '4 seconds' THEN
        RETURN QUERY
        SELECT id, NULL::text, NULL::text, format('%s is not asked, because another one takes too '
            'long', predicate)
        FROM pg_catalog.unnest(subject_ids) AS id;
        RETURN;
    END IF;

    -- Those of accounts by a plan that is kept: a dynamic statement is planned at each call.
    IF predicate = 'mailroom.provisioned_accounts(text[],boolean)' THEN
        RETURN QUERY
        SELECT answer.*, NULL::text FROM mailroom.provisioned_accounts(subject_ids, false)
            AS answer;
        RETURN;
    ELSIF predicate = 'mailroom.active_accounts(text[],boolean)' THEN
        RETURN QUERY
        SELECT answer.*, NULL::text FROM mailroom.active_accounts(subject_ids, false) AS answer;
        RETURN;
    END IF;

    -- In a transaction of its own that is taken back: a claim keeps nothing of what the function
    -- did to the session, such as another search path. One answer a subject,
    -- however many there are.
    BEGIN
        EXECUTE format(
            'SELECT array_agg(subject_id), array_agg(email), array_agg(name)
            FROM (SELECT DISTINCT ON (1) %1$s, %2$s, %3$s FROM %4$s) AS answer',
            mailroom.text_column('subject_id'), mailroom.text_column('email'),
                mailroom.text_column('name'),
            mailroom.predicate_call(predicate, false)
        )
        INTO answered, emails, names
        USING subject_ids;

        RAISE EXCEPTION USING ERRCODE = 'MRASK';
    EXCEPTION WHEN SQLSTATE 'MRASK' THEN
        NULL;
    END;

    RETURN QUERY
    SELECT answer.*, NULL::text
    FROM ROWS FROM (
        pg_catalog.unnest(answered), pg_catalog.unnest(emails), pg_catalog.unnest(names)
    ) AS answer;
EXCEPTION WHEN OTHERS OR assert_failure OR query_canceled THEN
    -- One subject whom the function fails for, such as an id that it cannot cast, must not keep the
    -- others waiting: each half is asked alone, for two of the four seconds. A lock, a time-out, a
    -- function or right that is missing says nothing of a subject.
    IF cardinality(subject_ids) > 1
        AND left(SQLSTATE, 2) NOT IN ('0A', '25', '28', '3F', '40', '42', '53', '54', '55', '57',
            '58', 'XX')
        AND clock_timestamp() < statement_timestamp() + interval '2 seconds'
    THEN
        RETURN QUERY
        SELECT half.*
        FROM mailroom.ask_eligibility(predicate, subject_ids[:cardinality(subject_ids) / 2]) AS half
        UNION ALL
        SELECT half.*
        FROM mailroom.ask_eligibility(predicate, subject_ids[cardinality(subject_ids) / 2 + 1:])
            AS half;
        RETURN;
    END IF;

    -- Not its message, which may quote a row. What a conversion says of one subject alone is not a
    -- fault of the function.
    RETURN QUERY
    SELECT id, NULL::text, NULL::text,
        format(
            CASE
                WHEN cardinality(subject_ids) = 1
                    AND SQLSTATE IN ('22P02', '22003', '22007', '22008')
                THEN '%s cannot convert the id of the subject, or another value of it (SQLSTATE %s)'
                ELSE '%s fails with SQLSTATE %s'
            END,
            predicate, SQLSTATE
        )
    FROM pg_catalog.unnest(subject_ids) AS id;
END;
$$;

COMMENT ON FUNCTION mailroom.ask_eligibility(text, text[]) IS
    'Which of the subjects may get an action''s mails, by its eligibility function. Those whom it '
    'fails for are among them, each with the fault.';

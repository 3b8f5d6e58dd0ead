-- Which of the tokens that a claim has locked are sent, and why the others are not.

CREATE FUNCTION mailroom.expired_unsent() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 'it expired before it could be sent';

COMMENT ON FUNCTION mailroom.expired_unsent() IS
    'Why a token is logged as expired, by whoever finds that.';

CREATE TYPE mailroom.candidate AS (
    place tid, token bigint, due_at timestamptz, attempt integer, failures smallint,
        priority smallint, secret bytea, code text,
    id bigint, action smallint, subject_id text, recipient_email text, recipient_name text,
        language text, expires_at bigint, binding bytea,
    has_payload boolean, is_void boolean, eligibility text, proves_address boolean,
        waits_since timestamptz, doubts smallint, traceparent text
);

COMMENT ON TYPE mailroom.candidate IS
    'A row of the queue and where it lies, with its token, whose id is null if it is gone, and '
    'what its action needs.';

CREATE TYPE mailroom.checked_candidate AS (
    place tid, token bigint, due_at timestamptz, attempt integer, failures smallint,
        priority smallint, secret bytea, code text,
    action smallint, email text, name text, language text, expires_at bigint, binding bytea,
        payload text, verdict text, fault text,
    waits_since timestamptz, doubts smallint, traceparent text
);

COMMENT ON TYPE mailroom.checked_candidate IS
    'Whether a candidate goes out: eligible, cancelled, expired, unsignable, ineligible or '
    'suppressed, and else why; with all that goes out.';

-- This function and those below have no search path of their own and are not volatile, so that they
-- become parts of the statement that calls them. OFFSET 0 keeps look-ups by key for each row.
CREATE FUNCTION mailroom.candidates(places tid[]) RETURNS SETOF mailroom.candidate
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT
        asked.place,
        queued.token, queued.due_at, queued.attempts + 1, queued.failures, queued.priority,
            queued.secret, queued.code,
        known.id, known.action, known.subject_id, known.recipient_email, known.recipient_name,
            known.language, known.expires_at,
        known.binding, known.has_payload, known.is_void,
        actions.eligibility, actions.proves_address,
        coalesce(queued.waits_since, queued.due_at), queued.doubts, known.traceparent
    FROM pg_catalog.unnest(places) AS asked (place)
    CROSS JOIN LATERAL (
        SELECT token, due_at, attempts, failures, priority, secret, code, waits_since, doubts
            FROM mailroom.queue WHERE ctid = asked.place
        OFFSET 0
    ) AS queued
    LEFT JOIN LATERAL (
        SELECT
            id, action, subject_id, recipient_email, recipient_name, language, expires_at, binding,
                has_payload, traceparent,
            consumed_at IS NOT NULL OR cancelled_at IS NOT NULL AS is_void
        FROM mailroom.issued_tokens
        WHERE id = queued.token
        OFFSET 0
    ) AS known ON true
    LEFT JOIN mailroom.actions ON actions.number = known.action;
END;

COMMENT ON FUNCTION mailroom.candidates(tid[]) IS
    'The rows of the queue at these places, with their tokens.';

CREATE FUNCTION mailroom.check_candidate(
    candidate mailroom.candidate, present_email text, present_name text, fault text,
        expiry_bound bigint, signable smallint[], binds boolean
) RETURNS SETOF mailroom.checked_candidate
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT
        (candidate).place, (candidate).token, (candidate).due_at, (candidate).attempt,
            (candidate).failures, (candidate).priority,
        (candidate).secret, (candidate).code, (candidate).action, recipient.email, recipient.name,
            (candidate).language,
        (candidate).expires_at, (candidate).binding,
        CASE WHEN (candidate).has_payload THEN (SELECT payload::text FROM mailroom.payloads
            WHERE token = (candidate).id) END,
        CASE
            WHEN (candidate).id IS NULL OR (candidate).is_void THEN 'cancelled'
            WHEN (candidate).expires_at <= expiry_bound THEN 'expired'
            WHEN (candidate).action <> ALL (signable) OR NOT binds
                AND (candidate).binding IS NOT NULL THEN 'unsignable'
            WHEN (candidate).eligibility IS NOT NULL AND present_email IS NULL THEN 'ineligible'
            WHEN recipient.is_other OR NOT recipient.is_address THEN 'cancelled'
            WHEN suppression.reason IS NOT NULL THEN 'suppressed'
            ELSE 'eligible'
        END,
        CASE
            WHEN (candidate).id IS NULL THEN 'it was deleted'
            WHEN (candidate).is_void THEN 'it was used or cancelled'
            WHEN (candidate).expires_at <= expiry_bound THEN mailroom.expired_unsent()
            WHEN (candidate).action <> ALL (signable) THEN
                'their action is '
                || (SELECT name FROM mailroom.actions WHERE number = (candidate).action)
            WHEN NOT binds AND (candidate).binding IS NOT NULL THEN 'they are bound to a browser'
            WHEN (candidate).eligibility IS NOT NULL AND present_email IS NULL THEN fault
            WHEN recipient.is_other THEN 'its address is not the one that its subject has now'
            WHEN NOT recipient.is_address THEN
                'the address of its account is not one that mail can be sent to'
            ELSE 'its address is suppressed (' || suppression.reason || ')'
        END,
        (candidate).waits_since,
        (candidate).doubts,
        (candidate).traceparent
    FROM (
        SELECT
            coalesce((candidate).recipient_email, present_email) AS email,
            coalesce((candidate).recipient_name, present_name) AS name,
            -- It was enqueued for another address, or the subject's changed in a transaction that
            -- did not see this token and so did not cancel it.
            -- Another spelling of one address is none.
            (
                (candidate).eligibility IS NOT NULL
                AND (candidate).proves_address
                AND (candidate).recipient_email <> present_email COLLATE "C"
                AND mailroom.normal_address((candidate).recipient_email) IS DISTINCT
                    FROM mailroom.normal_address(present_email)
            ) IS TRUE AS is_other,
            -- What was enqueued is one.
            (candidate).recipient_email IS NOT NULL OR present_email IS NULL
                OR mailroom.is_addressable(present_email) AS is_address
    ) AS recipient
    LEFT JOIN LATERAL (
        -- The second condition is evaluated once:
        -- where no address is suppressed, none is looked up.
        SELECT reason FROM mailroom.suppressions
        WHERE address = mailroom.normal_address(recipient.email)
            AND (SELECT EXISTS (SELECT FROM mailroom.suppressions))
        OFFSET 0
    ) AS suppression ON true;
END;

COMMENT ON FUNCTION mailroom.check_candidate(mailroom.candidate, text, text, text, bigint,
    smallint[], boolean) IS
    'Checks a candidate by the address and name that its subject has now, null if it is not '
    'eligible, for the reason of fault if there is one.';

-- Predicates of eligibility are asked once an action, and only for what could go out.
CREATE FUNCTION mailroom.check_eligibility(
    places tid[], expiry_bound bigint, signable smallint[], binds boolean
) RETURNS SETOF mailroom.checked_candidate
LANGUAGE sql STABLE
BEGIN ATOMIC
    WITH
    locked AS MATERIALIZED (
        SELECT * FROM mailroom.candidates(places)
    ),
    answers AS MATERIALIZED (
        SELECT asked.action, answer.*
        FROM (
            SELECT action, eligibility, pg_catalog.array_agg(subject_id) AS subject_ids
            FROM locked
            WHERE eligibility IS NOT NULL AND NOT is_void AND expires_at > expiry_bound
                AND action = ANY (signable)
                AND (binds OR binding IS NULL)
            GROUP BY action, eligibility
        ) AS asked
        CROSS JOIN LATERAL mailroom.ask_eligibility(asked.eligibility, asked.subject_ids) AS answer
    )
    SELECT checked.*
    FROM locked
    LEFT JOIN answers AS answer ON answer.action = locked.action
        AND answer.subject_id = locked.subject_id
    CROSS JOIN LATERAL mailroom.check_candidate(
        locked::mailroom.candidate, answer.email, answer.name, answer.fault, expiry_bound, signable,
            binds
    ) AS checked;
END;

COMMENT ON FUNCTION mailroom.check_eligibility(tid[], bigint, smallint[], boolean) IS
    'Checks the rows of the queue at these places, in their order.';

CREATE FUNCTION mailroom.check_without_calls(places tid[], expiry_bound bigint, signable smallint[],
    binds boolean) RETURNS SETOF mailroom.checked_candidate
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT checked.*
    FROM mailroom.candidates(places) AS locked
    CROSS JOIN LATERAL mailroom.check_candidate(locked, NULL, NULL, 'must be asked', expiry_bound,
        signable, binds) AS checked;
END;

COMMENT ON FUNCTION mailroom.check_without_calls(tid[], bigint, smallint[], boolean) IS
    'As check_eligibility(), but calls no function of eligibility: a candidate for which one must '
    'be asked is ineligible, its fault ''must be asked''.';

-- Most tokens need no call of a function of eligibility. If one does, or accounts cannot be read or
-- are locked, check_eligibility() checks all, where an error is that of one action's tokens alone,
-- which are deferred.
CREATE FUNCTION mailroom.check_candidates(
    places tid[], expiry_bound bigint, signable smallint[], binds boolean,
        OUT checked mailroom.checked_candidate[], OUT eligible integer
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = 300 AS $$
BEGIN
    BEGIN
        SELECT array_agg(candidate), count(*) FILTER (WHERE candidate.verdict = 'eligible')
        INTO checked, eligible
        FROM mailroom.check_without_calls(places, expiry_bound, signable, binds) AS candidate;
    EXCEPTION WHEN OTHERS OR assert_failure OR query_canceled THEN
        checked := NULL;
    END;

    IF checked IS NULL
        OR eligible < cardinality(checked)
        AND EXISTS (SELECT FROM pg_catalog.unnest(checked) WHERE verdict = 'ineligible'
            AND fault = 'must be asked')
    THEN
        SELECT array_agg(candidate), count(*) FILTER (WHERE candidate.verdict = 'eligible')
        INTO checked, eligible
        FROM mailroom.check_eligibility(places, expiry_bound, signable, binds) AS candidate;
    END IF;

    checked := coalesce(checked, '{}');
END;
$$;

COMMENT ON FUNCTION mailroom.check_candidates(tid[], bigint, smallint[], boolean) IS
    'Checks the rows of the queue at these places, in their order, and counts those that go out.';

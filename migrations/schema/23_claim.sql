-- Collectors claim batches of what is due.

-- Every seventh place is kept for one of the second priority, if one waits: of a hundred rows at
-- least ten are, also where several collectors count for themselves.
--
-- Whoever yields leaves a deferred row to others once more for as long as it was put off: a
-- collector that cannot sign it would else put it off again whenever it looks first, each time for
-- twice as long, while another one waits that signs it.
--
-- Locks: rows of the queue; those that another collector is just claiming are passed over.
CREATE FUNCTION mailroom.lock_candidates(
    scan_limit integer, turn integer, first_since timestamptz, second_since timestamptz,
        until timestamptz,
    takes_doubtful boolean, yields boolean,
    OUT places tid[], OUT first_through timestamptz, OUT second_through timestamptz
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    reserved integer := (turn + scan_limit) / 7;
    second tid[];
BEGIN
    SELECT coalesce(array_agg(place), '{}'), max(due_at) INTO places, first_through
    FROM (
        SELECT ctid AS place, due_at FROM mailroom.queue
        WHERE priority = 0::smallint AND due_at >= first_since AND due_at <= until
            AND (takes_doubtful OR doubts = 0)
            AND (NOT yields OR deferrals = 0 OR due_at + (due_at - put_off_at) <= until)
        ORDER BY due_at
        LIMIT scan_limit - reserved
        FOR UPDATE SKIP LOCKED
    ) AS locked;

    IF cardinality(places) < scan_limit THEN
        SELECT coalesce(array_agg(place), '{}'), max(due_at) INTO second, second_through
        FROM (
            SELECT ctid AS place, due_at FROM mailroom.queue
            WHERE priority = 1::smallint AND due_at >= second_since AND due_at <= until
                AND (takes_doubtful OR doubts = 0)
                AND (NOT yields OR deferrals = 0 OR due_at + (due_at - put_off_at) <= until)
            ORDER BY due_at
            LIMIT scan_limit - cardinality(places)
            FOR UPDATE SKIP LOCKED
        ) AS locked;

        -- Fewer of the second priority wait than places were kept: the first one gets the rest.
        IF cardinality(places) + reserved = scan_limit AND cardinality(second) < reserved THEN
            SELECT places || coalesce(array_agg(place), '{}'), coalesce(max(due_at), first_through)
                INTO places, first_through
            FROM (
                SELECT ctid AS place, due_at FROM mailroom.queue
                WHERE priority = 0::smallint AND due_at >= coalesce(first_through, first_since)
                    AND due_at <= until AND ctid <> ALL (places)
                    AND (takes_doubtful OR doubts = 0)
                    AND (NOT yields OR deferrals = 0 OR due_at + (due_at - put_off_at) <= until)
                ORDER BY due_at
                LIMIT reserved - cardinality(second)
                FOR UPDATE SKIP LOCKED
            ) AS locked;
        END IF;

        IF cardinality(places) > 0 AND cardinality(second) > 0 THEN
            places := ARRAY(
                SELECT place
                FROM (
                    SELECT place, (turn + nth - 1) * 7 / 6 AS slot
                        FROM pg_catalog.unnest(places) WITH ORDINALITY AS first (place, nth)
                    UNION ALL
                    SELECT place, 7 * nth - 1 FROM pg_catalog.unnest(second) WITH ORDINALITY
                        AS second (place, nth)
                ) AS both_priorities
                ORDER BY slot
            );
        ELSE
            places := places || second;
        END IF;
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.lock_candidates(integer, integer, timestamptz, timestamptz,
    timestamptz, boolean, boolean) IS
    'Locks rows of the queue, the oldest of each priority first, and only on demand such as may '
    'have been delivered already; answers where they lie, in the order in which they go out, and '
    'the latest due time of each priority.';

-- Only v1 binds no links, and has no further actions.
CREATE FUNCTION mailroom.others_sign_more(epoch timestamptz) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT EXISTS (
        SELECT FROM mailroom.collectors
        WHERE token_format <> 'v1' AND state IS DISTINCT FROM 'ended'
            AND mailroom.is_seen(seen_at, epoch)
    );
END;

COMMENT ON FUNCTION mailroom.others_sign_more(timestamptz) IS
    'Whether a collector is alive that signs what one of v1 cannot.';

-- Deferred tokens are looked at again after a pause that doubles from a quarter of a second up to a
-- minute, or to a part of their life.
CREATE FUNCTION mailroom.skip(
    collector bigint, epoch timestamptz, expiry_bound bigint, deferred bigint[], cancelled bigint[],
        cancel_reasons text[],
    expired bigint[], suppressed bigint[], suppression_reasons text[]
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_nestloop = on SET enable_hashjoin = off AS $$
#variable_conflict use_column
DECLARE
    expired_in_doubt constant text := mailroom.doubtful('it expired after an attempt in doubt');
BEGIN
    UPDATE mailroom.queue
    SET put_off_at = epoch,
        waits_since = CASE WHEN doubts > 0 THEN coalesce(waits_since, due_at) END,
        due_at = epoch + interval '1 millisecond' * mailroom.pause_after(
            deferrals::bigint,
            250::bigint,
            (SELECT tokens.expires_at - expiry_bound FROM mailroom.issued_tokens AS tokens
                WHERE tokens.id = queue.token)::double precision
        ),
        deferrals = least(deferrals + 1, 100)::smallint
    WHERE token = ANY (deferred);

    -- What may have been delivered did not expire unsent: it is listed, until somebody looks at it.
    WITH ended AS (
        DELETE FROM mailroom.queue WHERE token = ANY (cancelled || expired)
        RETURNING queue.*, doubts > 0 AND token <> ALL (coalesce(cancelled, '{}')) AS is_in_doubt
    ),
    given_up AS (
        INSERT INTO mailroom.dead_letters (
            token, died_at, expires_at, attempts, failures, priority, reason, doubts
        )
        SELECT
            token, epoch, tokens.expires_at, attempts, failures, priority,
            expired_in_doubt, doubts
        FROM ended
        JOIN mailroom.issued_tokens AS tokens ON tokens.id = token
        WHERE is_in_doubt
        ON CONFLICT DO NOTHING
    )
    INSERT INTO mailroom.delivery_log (tokens, happened_at, collector_id, attempt, outcome, reason)
    SELECT
        ARRAY[token], epoch, collector, attempts,
        CASE
            WHEN place IS NOT NULL THEN 'cancelled'::mailroom.outcome
            WHEN is_in_doubt THEN 'dead'::mailroom.outcome
            ELSE 'expired'::mailroom.outcome
        END,
        CASE
            WHEN place IS NOT NULL THEN cancel_reasons[place]
            WHEN is_in_doubt THEN expired_in_doubt
            ELSE mailroom.expired_unsent()
        END
    FROM ended
    CROSS JOIN LATERAL pg_catalog.array_position(cancelled, token) AS place;

    PERFORM mailroom.delete_payloads(cancelled || expired);

    IF cardinality(suppressed) > 0 THEN
        WITH given_up AS (
            DELETE FROM mailroom.queue WHERE token = ANY (suppressed)
            RETURNING queue.*, suppression_reasons[pg_catalog.array_position(suppressed, token)]
                AS reason
        ),
        logged AS (
            INSERT INTO mailroom.delivery_log (tokens, happened_at, collector_id, attempt, outcome,
                reason)
            SELECT ARRAY[token], epoch, collector, attempts, 'dead', reason FROM given_up
        )
        INSERT INTO mailroom.dead_letters (
            token, died_at, expires_at, attempts, failures, priority, secret, code, reason,
                is_suppressed, doubts
        )
        SELECT
            token, epoch, tokens.expires_at, attempts, failures, priority,
            CASE WHEN is_unused THEN secret END,
            CASE WHEN is_unused THEN code END,
            reason, true, doubts
        FROM given_up
        JOIN mailroom.issued_tokens AS tokens ON tokens.id = token
        -- Used or cancelled while it was claimed, it keeps no secret.
        CROSS JOIN LATERAL (SELECT consumed_at IS NULL AND cancelled_at IS NULL AS is_unused) AS use
        ON CONFLICT DO NOTHING;
    END IF;
END;
$$;

COMMENT ON FUNCTION mailroom.skip(bigint, timestamptz, bigint, bigint[], bigint[], text[],
    bigint[], bigint[], text[]) IS
    'Defers tokens that may not be sent yet, and takes those out of the queue that may not be sent '
    'at all: suppressed ones become dead letters.';

-- What is eligible is deleted and leased by one statement, which returns a row for each batch, its
-- tokens in arrays: a loop over tokens, and arrays cut into batches, took half of a claim's time.
-- Rows of the queue are deleted by their ctid.
CREATE FUNCTION mailroom.claim(
    collector bigint,
    wanted uuid[],
    batch_limit integer,
    partial boolean,
    scan_limit integer,
    turn integer,
    first_since timestamptz,
    second_since timestamptz,
    lease bigint,
    min_lifetime bigint,
    signable smallint[],
    binds boolean,
    rate_per_day bigint DEFAULT NULL,
    takes_doubtful boolean DEFAULT true,
    budget bigint DEFAULT NULL
) RETURNS TABLE (
    batch uuid, tokens bigint[], attempts integer[], actions smallint[], emails bytea[],
        names bytea[], secrets bytea[], codes bytea[],
    expirations bigint[], languages text[], payloads bytea[], bindings bytea[], doubts smallint[],
    scanned integer, waiting integer, expired integer, cancelled integer, deferred integer,
        unsignable integer, suppressed integer,
    dead_in_doubt integer,
    reason text, first_through timestamptz, second_through timestamptz, wait bigint,
        other_rate bigint, skipped text, due_since timestamptz[], claimed_at timestamptz,
        budget_left bigint, other_budget bigint, priorities smallint[], traceparents text[]
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_memoize = off SET jit = off
SET enable_nestloop = off SET enable_mergejoin = off SET enable_hashagg = off
SET work_mem = '32MB' AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom.clock();
    expiry_bound bigint := mailroom.expiry_bound(epoch, min_lifetime);
    capacity integer := cardinality(wanted) * batch_limit;
    is_limited boolean := rate_per_day IS NOT NULL OR budget IS NOT NULL;
    -- What is sent to the client needs no conversion then, and by its name an encoding is looked up
    -- for every text.
    is_utf8 boolean := getdatabaseencoding() = 'UTF8' AND pg_client_encoding() = 'UTF8';
    locked record;
    result record;
    eligible mailroom.checked_candidate[];
    others mailroom.checked_candidate[];
    taken integer := 0;
    -- What may not be sent.
    put_off bigint[];
    void bigint[];
    void_reasons text[];
    too_old bigint[];
    unwanted bigint[];
    unwanted_reasons text[];
BEGIN
    scanned := 0;
    waiting := 0;
    expired := 0;
    cancelled := 0;
    deferred := 0;
    unsignable := 0;
    suppressed := 0;
    dead_in_doubt := 0;

    IF is_limited THEN
        SELECT spent.wait, spent.other_rate, spent.other_budget, spent.budget_left
            INTO wait, other_rate, other_budget, budget_left
            FROM mailroom.spend(rate_per_day, budget, capacity, 0::bigint) AS spent;
    END IF;

    IF budget IS NULL AND (SELECT last_value FROM mailroom.budget_in_use) <> 0 THEN
        -- So that nobody is told of a budget that was taken away.
        PERFORM setval('mailroom.budget_in_use', 0);
    END IF;

    IF wait IS NULL THEN
        -- A statement of its own: the snapshots of those that follow have all rows that are locked
        -- by it. To assign it takes less than a query.
        locked := mailroom.lock_candidates(scan_limit, turn, coalesce(first_since, '-infinity'),
            coalesce(second_since, '-infinity'), epoch, takes_doubtful,
            NOT binds AND mailroom.others_sign_more(epoch));
        scanned := cardinality(locked.places);
        first_through := locked.first_through;
        second_through := locked.second_through;
    END IF;

    IF scanned > 0 THEN
        result := mailroom.check_candidates(locked.places, expiry_bound, signable, binds);
        eligible := result.checked;
        taken := result.eligible;

        IF taken < scanned THEN
            others := ARRAY(SELECT checked FROM pg_catalog.unnest(eligible) AS checked
                WHERE checked.verdict <> 'eligible');
            eligible := ARRAY(SELECT checked FROM pg_catalog.unnest(eligible) AS checked
                WHERE checked.verdict = 'eligible');
        END IF;

        taken := least(capacity, CASE WHEN partial THEN taken ELSE taken - taken % batch_limit END);
    END IF;

    IF taken > 0 AND is_limited THEN
        SELECT spent.granted, spent.wait, spent.budget_left INTO taken, wait, budget_left
            FROM mailroom.spend(rate_per_day, budget, capacity, taken::bigint) AS spent;
    END IF;

    IF taken > 0 THEN
        RETURN QUERY
        WITH
        batches AS MATERIALIZED (
            SELECT
                (nth - 1) / batch_limit + 1 AS ordinal,
                min(due_at) AS due_at,
                array_agg(place) AS places,
                array_agg(token) AS tokens,
                array_agg(attempt) AS attempts,
                array_agg(failures) AS failures,
                array_agg(priority) AS priorities,
                array_agg(secret) AS secrets,
                array_agg(code) AS codes,
                array_agg(waits_since) AS waits_since,
                array_agg(action) AS actions,
                array_agg(CASE WHEN is_utf8 THEN textsend(email) ELSE mailroom.to_utf8(email) END)
                    AS emails,
                array_agg(CASE WHEN is_utf8 THEN textsend(name) ELSE mailroom.to_utf8(name) END)
                    AS names,
                array_agg(CASE WHEN is_utf8 THEN textsend(code) ELSE mailroom.to_utf8(code) END)
                    AS utf8_codes,
                array_agg(expires_at) AS expirations,
                array_agg(language) AS languages,
                array_agg(mailroom.to_utf8(payload)) AS payloads,
                count(payload) > 0 AS has_payloads,
                array_agg(binding) AS bindings,
                CASE WHEN max(doubts) > 0 THEN array_agg(doubts) END AS doubts,
                CASE WHEN count(traceparent) > 0 THEN array_agg(traceparent) END AS traceparents
            FROM pg_catalog.unnest(eligible) WITH ORDINALITY AS checked (
                place, token, due_at, attempt, failures, priority, secret, code, action, email,
                    name, language, expires_at, binding,
                payload, verdict, fault, waits_since, doubts, traceparent, nth
            )
            WHERE nth <= taken
            GROUP BY 1
        ),
        removed AS (
            DELETE FROM mailroom.queue WHERE ctid = ANY (ARRAY(SELECT pg_catalog.unnest(places)
                FROM batches))
        ),
        leased AS (
            INSERT INTO mailroom.leases (
                batch, collector_id, claimed_at, renewed_at, ends_at, due_at, tokens, attempts,
                    failures, priorities, secrets, codes, has_payloads,
                waits_since, doubts
            )
            SELECT
                wanted[ordinal], collector, epoch, epoch,
                    epoch + interval '1 millisecond' * lease::double precision, due_at,
                tokens, attempts, failures, priorities, secrets, codes, has_payloads, waits_since,
                    doubts
            FROM batches
        )
        SELECT
            wanted[ordinal], tokens, attempts, actions, emails, names, secrets, utf8_codes,
                expirations, languages, payloads, bindings, doubts,
            NULL::integer, NULL::integer, NULL::integer, NULL::integer, NULL::integer,
                NULL::integer, NULL::integer, NULL::integer, NULL::text,
            NULL::timestamptz, NULL::timestamptz, NULL::bigint, NULL::bigint, NULL::text,
            waits_since, epoch, NULL::bigint, NULL::bigint, priorities, traceparents
        -- In the order of their ordinals, by which the aggregation sorts
        -- where enable_hashagg is off.
        FROM batches;
    END IF;

    IF taken < scanned THEN
        SELECT
            count(*) FILTER (WHERE verdict = 'eligible'), count(*)
                FILTER (WHERE verdict = 'expired' AND doubts = 0),
            count(*) FILTER (WHERE verdict = 'cancelled'), count(*)
                FILTER (WHERE verdict = 'ineligible'),
            count(*) FILTER (WHERE verdict = 'unsignable'), count(*)
                FILTER (WHERE verdict = 'suppressed'),
            count(*) FILTER (WHERE verdict = 'expired' AND doubts > 0),
            min(fault) FILTER (WHERE verdict = 'ineligible'),
            -- The next claim begins at what is left, or after what was looked at.
            coalesce(min(due_at) FILTER (WHERE verdict = 'eligible'
                AND priority = 0), first_through),
            coalesce(min(due_at) FILTER (WHERE verdict = 'eligible'
                AND priority <> 0), second_through),
            array_agg(token) FILTER (WHERE verdict IN ('ineligible', 'unsignable')),
            array_agg(token) FILTER (WHERE verdict = 'cancelled'), array_agg(fault)
                FILTER (WHERE verdict = 'cancelled'),
            array_agg(token) FILTER (WHERE verdict = 'expired'),
            array_agg(token) FILTER (WHERE verdict = 'suppressed'), array_agg(fault)
                FILTER (WHERE verdict = 'suppressed')
        INTO
            waiting, expired, cancelled, deferred, unsignable, suppressed, dead_in_doubt, reason,
                first_through, second_through,
            put_off, void, void_reasons, too_old, unwanted, unwanted_reasons
        FROM pg_catalog.unnest(eligible[taken + 1:] || others);

        IF coalesce(put_off, void, too_old, unwanted) IS NOT NULL THEN
            PERFORM mailroom.skip(collector, epoch, expiry_bound, put_off, void, void_reasons,
                too_old, unwanted, unwanted_reasons);
            skipped := (
                SELECT jsonb_agg(jsonb_build_object('verdict', verdict, 'reason', fault, 'count',
                    count, 'ids', ids, 'traceparents', traceparents))::text
                FROM (
                    SELECT verdict, fault, count(*) AS count, (array_agg(token))[1:10] AS ids,
                        coalesce(
                            (array_agg(traceparent) FILTER (WHERE traceparent IS NOT NULL))[1:10],
                            '{}'
                        ) AS traceparents
                    FROM pg_catalog.unnest(others)
                    GROUP BY verdict, fault
                    ORDER BY count(*) DESC
                    LIMIT 20
                ) AS alike
            );
        END IF;
    END IF;

    -- The last row has no batch, and says what was found.
    first_through := coalesce(first_through, first_since);
    second_through := coalesce(second_through, second_since);
    RETURN NEXT;
END;
$$;

COMMENT ON FUNCTION mailroom.claim(
    bigint, uuid[], integer, boolean, integer, integer, timestamptz, timestamptz, bigint, bigint,
        smallint[], boolean, bigint, boolean, bigint
) IS
    'For collectors: claims batches of what is due, of actions that can be signed; bound links '
    'only if it can bind; and what may have been delivered already only on demand, since that is '
    'no trial of a sender. The last row has no batch, and says what was found: skipped is '
    'JSON, of what was not claimed by verdict and reason the count and some ids. Due_since says '
    'since when each token was due, by the clock that claimed_at shows. Priorities are as in '
    'actions when each token was queued; traceparents as in issued_tokens, or null if no token '
    'has any. The span of the lease is milliseconds, min_lifetime seconds; the rate, if there is '
    'one, tokens a day for all collectors, and the budget tokens a month. Budget_left is what is '
    'left of it; other_rate and other_budget are those at which others claim, if they are others.';

CREATE FUNCTION mailroom.list_actions() RETURNS TABLE (
    number smallint, name text, path text, code_digits smallint, token_format text
)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT actions.number, actions.name, actions.path, actions.code_digits,
        installation.token_format
    FROM mailroom.actions CROSS JOIN mailroom.installation
    ORDER BY actions.number;
END;

COMMENT ON FUNCTION mailroom.list_actions() IS
    'For collectors: what there is to sign, and in which format unless a collector is told '
    'another one.';

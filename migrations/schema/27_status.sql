-- How much waits and for how long, for operators.

-- One that was started on the same host after another one was seen last has replaced it. Who ended
-- without a word an hour ago is forgotten, unless nobody has come after it.
CREATE FUNCTION mailroom.present_collectors(epoch timestamptz) RETURNS TABLE (
    collector_id bigint, name text, started_at timestamptz, seen_at timestamptz, state text,
        state_since timestamptz, state_reason text,
    is_alive boolean, token_format text, installation text
)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    -- Read once: the table keeps every process that ever collected.
    WITH known AS (
        SELECT
            one.collector_id, one.name, one.started_at, one.seen_at, one.state, one.state_since,
            one.state_reason,
            mailroom.is_seen(one.seen_at, present_collectors.epoch) AS was_seen,
            mailroom.rests(one.state, one.seen_at, present_collectors.epoch) AS rests,
            max(one.started_at) OVER (PARTITION BY split_part(one.name, ' process ', 1))
                > one.seen_at AS is_replaced,
            max(one.seen_at) OVER () > one.seen_at AS is_followed,
            one.token_format, one.installation
        FROM mailroom.collectors AS one
    )
    SELECT known.collector_id, known.name, known.started_at, known.seen_at, known.state,
        known.state_since, known.state_reason,
        known.was_seen OR known.rests AND NOT known.is_replaced,
        known.token_format, known.installation
    FROM known
    WHERE known.state IS DISTINCT FROM 'ended'
        AND (
            known.was_seen
            OR NOT known.is_replaced
            AND (
                known.seen_at > present_collectors.epoch - interval '1 hour'
                OR known.rests
                OR NOT known.is_followed
            )
        );
END;

COMMENT ON FUNCTION mailroom.present_collectors(timestamptz) IS
    'Collectors that gave a sign of life within 90 seconds or said within 25 hours that they rest, '
    'and those that are missed: they neither ended in order nor were replaced.';

CREATE FUNCTION mailroom.status(
    OUT first_due bigint,
    OUT second_due bigint,
    OUT later bigint,
    OUT oldest_due_ms bigint,
    OUT leases bigint,
    OUT leased_tokens bigint,
    OUT lapsed_leases bigint,
    OUT oldest_lease_ms bigint,
    OUT deferred bigint,
    OUT dead_letters bigint,
    OUT dead_last_hour bigint,
    OUT suppressed bigint,
    OUT expired bigint,
    OUT expired_last_hour bigint,
    OUT log_since bigint,
    OUT collectors_alive bigint,
    OUT collectors_lost bigint,
    OUT unavailable_ms bigint,
    OUT collectors json,
    OUT in_doubt bigint,
    OUT in_doubt_last_hour bigint,
    OUT dead_in_doubt bigint,
    OUT in_doubt_oldest_ms bigint,
    OUT dead_in_doubt_last_hour bigint,
    OUT unsignable bigint,
    OUT token_formats bigint,
    OUT token_format text,
    OUT installation text,
    OUT misnamed bigint,
    OUT is_of_another_cluster boolean,
    OUT budget json,
    OUT unsigned json,
    OUT handed_over bigint,
    OUT handed_over_oldest_ms bigint,
    OUT handed_over_overdue bigint,
    OUT handed_over_overdue_last_hour bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom.clock();
    -- A sender drops what has expired, and its verdict is on its way for a while.
    overdue_at bigint := floor(extract(epoch FROM epoch))::bigint - 300;
    figures record;
BEGIN
    -- One statement, one snapshot: a token that moves between the tables is counted once.
    SELECT
        waiting.first_due AS first_due,
        waiting.second_due AS second_due,
        waiting.later AS later,
        floor(1000::numeric * extract(epoch FROM epoch - least(waiting.oldest,
            claimed.oldest)))::bigint AS oldest_due_ms,
        claimed.leases AS leases,
        claimed.leased_tokens AS leased_tokens,
        claimed.lapsed_leases AS lapsed_leases,
        claimed.oldest_lease_ms AS oldest_lease_ms,
        waiting.deferred AS deferred,
        given_up.total AS dead_letters,
        given_up.last_hour AS dead_last_hour,
        given_up.suppressed AS suppressed,
        (SELECT count(*) FROM mailroom.delivery_log WHERE outcome = 'expired') AS expired,
        (
            SELECT count(*) FROM mailroom.delivery_log
            WHERE outcome = 'expired' AND happened_at > epoch - interval '1 hour'
        ) AS expired_last_hour,
        floor(extract(epoch FROM own.log_complete_since))::bigint AS log_since,
        known.alive AS collectors_alive,
        known.lost AS collectors_lost,
        known.unavailable_ms AS unavailable_ms,
        known.list AS collectors,
        waiting.in_doubt + claimed.in_doubt AS in_doubt,
        (
            SELECT count(*) FROM mailroom.delivery_log
            WHERE outcome = 'in_doubt' AND happened_at > epoch - interval '1 hour'
        ) AS in_doubt_last_hour,
        maybe_delivered.total AS dead_in_doubt,
        floor(1000::numeric * extract(epoch FROM epoch - least(waiting.in_doubt_since,
            claimed.in_doubt_since)))::bigint AS in_doubt_oldest_ms,
        maybe_delivered.last_hour AS dead_in_doubt_last_hour,
        unsigned.total AS unsignable,
        known.formats AS token_formats,
        own.token_format AS token_format,
        own.name AS installation,
        known.misnamed AS misnamed,
        coalesce(own.system_identifier <> mailroom.cluster_identifier(), false)
            AS is_of_another_cluster,
        unsigned.list AS unsigned,
        away.total AS handed_over,
        away.oldest_ms AS handed_over_oldest_ms,
        away.overdue AS handed_over_overdue,
        away.overdue_last_hour AS handed_over_overdue_last_hour
    INTO figures
    FROM mailroom.installation AS own
    CROSS JOIN (
        SELECT
            count(*) FILTER (WHERE deferrals = 0 AND due_at <= epoch AND priority = 0::smallint)
                AS first_due,
            count(*) FILTER (WHERE deferrals = 0 AND due_at <= epoch AND priority <> 0::smallint)
                AS second_due,
            count(*) FILTER (WHERE deferrals = 0 AND due_at > epoch) AS later,
            count(*) FILTER (WHERE deferrals > 0) AS deferred,
            count(*) FILTER (WHERE doubts > 0) AS in_doubt,
            min(coalesce(waits_since, CASE WHEN due_at <= epoch THEN due_at END))
                FILTER (WHERE doubts > 0) AS in_doubt_since,
            -- What the sender gave back waits on while its pause lasts; what is in doubt has a
            -- figure of its own.
            min(
                CASE
                    WHEN doubts = 0
                    THEN coalesce(waits_since, CASE WHEN due_at <= epoch THEN due_at END)
                    WHEN due_at <= epoch THEN due_at
                END
            ) FILTER (WHERE deferrals = 0) AS oldest
        FROM mailroom.queue
    ) AS waiting
    CROSS JOIN (
        SELECT
            count(*) AS leases,
            coalesce(sum(pg_catalog.cardinality(tokens)), 0::bigint) AS leased_tokens,
            count(*) FILTER (WHERE ends_at <= epoch) AS lapsed_leases,
            floor(1000::numeric * extract(epoch FROM epoch - min(claimed_at)))::bigint
                AS oldest_lease_ms,
            -- What is tried again waits on meanwhile.
            min((
                SELECT min(item.waits_since)
                FROM ROWS FROM (
                    pg_catalog.unnest(attempts), pg_catalog.unnest(waits_since),
                        pg_catalog.unnest(doubts)
                ) AS item (attempt, waits_since, doubts)
                WHERE item.attempt > 1 AND coalesce(item.doubts, 0::smallint) = 0
            )) AS oldest,
            min((
                SELECT min(item.waits_since)
                FROM ROWS FROM (pg_catalog.unnest(waits_since), pg_catalog.unnest(doubts))
                    AS item (waits_since, doubts)
                WHERE item.doubts > 0
            )) AS in_doubt_since,
            coalesce(sum((SELECT count(*) FROM pg_catalog.unnest(doubts) AS doubt
                WHERE doubt > 0)), 0)
                ::bigint AS in_doubt
        FROM mailroom.leases
    ) AS claimed
    CROSS JOIN (
        SELECT
            count(*) FILTER (WHERE NOT is_suppressed) AS total,
            count(*) FILTER (WHERE NOT is_suppressed AND died_at > epoch - interval '1 hour')
                AS last_hour,
            count(*) FILTER (WHERE is_suppressed) AS suppressed
        FROM mailroom.dead_letters
    ) AS given_up
    CROSS JOIN (
        SELECT count(*) AS total, count(*) FILTER (WHERE died_at > epoch - interval '1 hour')
            AS last_hour
        FROM mailroom.dead_letters
        WHERE is_in_doubt
    ) AS maybe_delivered
    CROSS JOIN (
        SELECT
            count(*) AS total,
            floor(1000::numeric * extract(epoch FROM epoch - min(handed_over_at)))::bigint
                AS oldest_ms,
            count(*) FILTER (WHERE expires_at <= overdue_at) AS overdue,
            count(*) FILTER (WHERE expires_at <= overdue_at AND expires_at > overdue_at - 3600)
                AS overdue_last_hour
        FROM mailroom.handed_over
    ) AS away
    CROSS JOIN LATERAL (
        SELECT
            count(*) FILTER (WHERE is_alive) AS alive,
            count(*) FILTER (WHERE NOT is_alive) AS lost,
            floor(1000::numeric * extract(epoch FROM epoch - min(state_since) FILTER (
                WHERE is_alive AND state IN ('unanswered', 'failing', 'open', 'half_open')
            )))::bigint AS unavailable_ms,
            coalesce(bool_and(present.token_format = 'v1') FILTER (WHERE is_alive), false)
                AS sign_v1_only,
            count(DISTINCT present.token_format) FILTER (WHERE is_alive) AS formats,
            count(*) FILTER (WHERE is_alive AND own.name <> coalesce(present.installation, ''))
                AS misnamed,
            coalesce(
                json_agg(
                    json_build_object(
                        'name', present.name,
                        'is_alive', is_alive,
                        'token_format', present.token_format,
                        'seen_ms', floor(1000::numeric * extract(epoch
                        FROM epoch - seen_at))::bigint,
                        'state', state,
                        'since', to_char(state_since AT TIME ZONE 'UTC',
                        'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                        'state_ms', floor(1000::numeric * extract(epoch
                        FROM epoch - state_since))::bigint,
                        'reason', state_reason
                    )
                    ORDER BY started_at, collector_id
                ),
                '[]'::json
            ) AS list
        FROM mailroom.present_collectors(epoch) AS present
    ) AS known
    -- What no collector that is alive signs: v1 knows two actions and binds no links.
    CROSS JOIN LATERAL (
        SELECT
            coalesce(sum(alike.tokens), 0)::bigint AS total,
            coalesce(
                json_agg(
                    json_build_object(
                        'reason', alike.reason,
                        'action', alike.name,
                        'tokens', alike.tokens
                    )
                    ORDER BY alike.reason, alike.number
                ),
                '[]'::json
            ) AS list
        FROM (
            SELECT
                CASE WHEN actions.number > 2 THEN 'action' ELSE 'binding' END AS reason,
                actions.number, actions.name, count(*) AS tokens
            FROM mailroom.queue AS put_off
            -- One by one: a join would read all tokens.
            CROSS JOIN LATERAL (
                SELECT looked_up.action, looked_up.binding
                FROM mailroom.issued_tokens AS looked_up
                WHERE looked_up.id = put_off.token
                OFFSET 0
            ) AS known_token
            JOIN mailroom.actions ON actions.number = known_token.action
            WHERE known.sign_v1_only
                AND put_off.deferrals > 0
                AND (known_token.action > 2 OR known_token.binding IS NOT NULL)
            GROUP BY actions.number, actions.name
        ) AS alike
    ) AS unsigned;

    -- By name: two columns that change places are no error of PostgreSQL.
    first_due := figures.first_due;
    second_due := figures.second_due;
    later := figures.later;
    oldest_due_ms := figures.oldest_due_ms;
    leases := figures.leases;
    leased_tokens := figures.leased_tokens;
    lapsed_leases := figures.lapsed_leases;
    oldest_lease_ms := figures.oldest_lease_ms;
    deferred := figures.deferred;
    dead_letters := figures.dead_letters;
    dead_last_hour := figures.dead_last_hour;
    suppressed := figures.suppressed;
    expired := figures.expired;
    expired_last_hour := figures.expired_last_hour;
    log_since := figures.log_since;
    collectors_alive := figures.collectors_alive;
    collectors_lost := figures.collectors_lost;
    unavailable_ms := figures.unavailable_ms;
    collectors := figures.collectors;
    in_doubt := figures.in_doubt;
    in_doubt_last_hour := figures.in_doubt_last_hour;
    dead_in_doubt := figures.dead_in_doubt;
    in_doubt_oldest_ms := figures.in_doubt_oldest_ms;
    dead_in_doubt_last_hour := figures.dead_in_doubt_last_hour;
    unsignable := figures.unsignable;
    token_formats := figures.token_formats;
    token_format := figures.token_format;
    installation := figures.installation;
    misnamed := figures.misnamed;
    is_of_another_cluster := figures.is_of_another_cluster;
    unsigned := figures.unsigned;
    handed_over := figures.handed_over;
    handed_over_oldest_ms := figures.handed_over_oldest_ms;
    handed_over_overdue := figures.handed_over_overdue;
    handed_over_overdue_last_hour := figures.handed_over_overdue_last_hour;

    SELECT json_build_object(
        'allowed', spent.allowed,
        'used', spent.used,
        'left', spent.available,
        'used_percent', 100 * spent.used / spent.allowed,
        'ends_at', to_char(spent.ends_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
        'lasts_until', to_char(spent.lasts_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
    )
    INTO budget
    FROM mailroom.measure_budget() AS spent
    WHERE spent.allowed > 0;
END;
$$;

COMMENT ON FUNCTION mailroom.status() IS
    'For operators: how many tokens are due, by priority, how many will be later, since how many '
    'milliseconds the oldest is due; batches that are claimed, their tokens, those whose lease has '
    'lapsed, since how many milliseconds the oldest is claimed; deferred tokens; dead letters, in '
    'all and of the last hour, those whose address is suppressed apart; tokens that expired '
    'unsent, in all of the log and within the last hour; and since when, in seconds of the Unix '
    'epoch, the log is complete; collectors that are alive and that are missed, since how many '
    'milliseconds a sender has been unavailable, and each collector with the state of its sender. '
    'A token that the sender gave back because it was unavailable is due since it was due first. '
    'Tokens that wait or are claimed after an attempt in doubt, attempts that ended in doubt '
    'within the last hour, and dead letters that may have been delivered; since how many '
    'milliseconds the first of those tokens was due, and those dead letters of the last hour. '
    'Deferred tokens that no collector can sign; how many formats the collectors sign, and which '
    'of them is the default; the installation''s name, how many collectors have another one or '
    'none, and whether the queue is bound to another cluster. Of a budget, as in measure_budget(), '
    'what is used and left, when its month ends, and until when it lasts. The tokens that no '
    'collector can sign by their reason: `action`, which v1 does not sign, or `binding`. Tokens '
    'that were handed over to a broker and have no verdict yet, since how many milliseconds the '
    'first of them; of those such as expired five minutes ago or earlier, and within an hour of '
    'that.';

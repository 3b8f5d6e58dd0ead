-- What collectors call now and then beside claiming: to keep their leases, to find out what waits,
-- and to clear away.

CREATE FUNCTION mailroom.return_lapsed_leases(since timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom.clock();
BEGIN
    WITH
    -- Whoever is settling or taking over one of them just now is not waited for.
    lapsed AS MATERIALIZED (
        SELECT batch FROM mailroom.leases
        WHERE ends_at >= return_lapsed_leases.since AND ends_at <= epoch
        ORDER BY ends_at
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    ),
    gone AS (
        DELETE FROM mailroom.leases
        WHERE batch = ANY (ARRAY(SELECT batch FROM lapsed))
        RETURNING *
    ),
    items AS (
        SELECT gone.collector_id, gone.batch, gone.due_at, leased.*
        FROM gone
        CROSS JOIN LATERAL mailroom.leased_tokens(gone::mailroom.leases) AS leased
    ),
    logged AS (
        INSERT INTO mailroom.delivery_log (
            tokens, happened_at, collector_id, batch, attempt, outcome
        )
        SELECT ARRAY[token], epoch, collector_id, batch, attempt, 'lapsed' FROM items
    )
    INSERT INTO mailroom.queue (token, due_at, attempts, failures, priority, secret, code,
        waits_since, doubts)
    SELECT
        token, least(due_at, mailroom.clock()), attempt, failures, priority, secret, code,
            waits_since,
        doubts
    FROM items
    ON CONFLICT DO NOTHING;
END;
$$;

COMMENT ON FUNCTION mailroom.return_lapsed_leases(timestamptz) IS
    'Puts the tokens of leases back that have lapsed, and logs it.';

-- A sequence, which has no versions: nothing grows under an old snapshot, and nobody waits for
-- another's commit.
CREATE SEQUENCE mailroom.low_watermark MINVALUE 0 START 0;

COMMENT ON SEQUENCE mailroom.low_watermark IS
    'Not counted up: the time before which nothing in the queue was due when a collector looked '
    'last, in microseconds since the Unix epoch; 0 if that is not known. '
    'A new collector begins there.';

-- What a collector does every few seconds: says that it lives and what it holds, and gives back
-- what nobody holds any more. A call that comes late, when its collector has long had another
-- connection, changes nothing of what that claimed since. Leases lapse if it takes too long, so
-- nothing in it grows with the number of tokens that wait.
CREATE FUNCTION mailroom.heartbeat(
    collector bigint, name text, held uuid[], lease bigint, since timestamptz,
    state text DEFAULT NULL, state_for bigint DEFAULT 0, state_reason text DEFAULT NULL,
    token_format text DEFAULT NULL, installation text DEFAULT NULL, version text DEFAULT NULL,
    settings text DEFAULT NULL, counts text DEFAULT NULL
)
RETURNS TABLE (batch uuid, low_watermark timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom.clock();
    since_when timestamptz := epoch - interval '1 millisecond' * greatest(state_for,
        0::bigint)::double precision;
    kept uuid[];
    own_name text;
BEGIN
    -- A collector calls this before it claims anything. A copy of a product's database must not
    -- mail its people.
    IF (SELECT system_identifier <> mailroom.cluster_identifier() FROM mailroom.installation) THEN
        RAISE EXCEPTION
            'this queue belongs to another PostgreSQL cluster, from which its database was '
            'restored or upgraded; if this'
            ' cluster is to send its mails, and no other, run `mailroom migrate bind`'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;

    INSERT INTO mailroom.collectors (
        collector_id, name, started_at, seen_at, state, state_since, state_reason,
        token_format, installation, version, settings, counts
    )
    VALUES (
        collector, heartbeat.name, epoch, epoch, heartbeat.state, since_when,
        heartbeat.state_reason, heartbeat.token_format, heartbeat.installation,
        heartbeat.version, heartbeat.settings::json, heartbeat.counts::json
    )
    ON CONFLICT DO NOTHING;

    IF FOUND THEN
        -- Only of one that comes: one that was here when the name was given may have mails on their
        -- way, which would go out again if it could not settle them.
        SELECT known.name INTO own_name FROM mailroom.installation AS known
        WHERE known.name IS DISTINCT FROM heartbeat.installation;

        IF own_name IS NOT NULL THEN
            RAISE EXCEPTION
                'this queue is that of the installation "%", which this collector does not name: '
                'if it is to send the mails of that one, set MAILROOM_INSTALLATION=%; if this is a '
                'copy of its database, run `mailroom migrate bind --name` with a name of its own',
                own_name, own_name
                USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;

        -- One that is new knows nothing yet. Wrong is what it learns here only by a clock that was
        -- set back; each minute it looks further back.
        SELECT 'epoch'::timestamptz + interval '1 microsecond' * last_value INTO low_watermark
        FROM mailroom.low_watermark
        WHERE last_value > 0;
        low_watermark := CASE WHEN low_watermark <= epoch THEN low_watermark END;
    ELSE
        -- Three times a minute, and when something is new: an idle server has little to write.
        UPDATE mailroom.collectors
        SET seen_at = epoch, state = heartbeat.state, state_since = since_when,
            state_reason = heartbeat.state_reason,
            token_format = heartbeat.token_format, installation = heartbeat.installation,
            version = heartbeat.version,
            settings = coalesce(heartbeat.settings::json, collectors.settings),
            counts = heartbeat.counts::json
        WHERE collector_id = collector
            AND (
                seen_at NOT BETWEEN epoch - interval '20 seconds' AND epoch
                OR state IS DISTINCT FROM heartbeat.state
                OR state_reason IS DISTINCT FROM heartbeat.state_reason
                OR token_format IS DISTINCT FROM heartbeat.token_format
                OR installation IS DISTINCT FROM heartbeat.installation
                OR state_since NOT BETWEEN since_when - interval '5 seconds'
                    AND since_when + interval '5 seconds'
            );

        low_watermark := since;
        -- Only if it is another: an idle server has nothing to write.
        PERFORM setval('mailroom.low_watermark', told.micros)
        FROM (SELECT greatest(floor(extract(epoch FROM coalesce(since, 'epoch')) * 1000000),
            0)::bigint AS micros) AS told
        JOIN mailroom.low_watermark AS stored ON stored.last_value <> told.micros;
    END IF;

    -- Own leases, also lapsed ones that nobody has taken over.
    WITH renewed AS (
        UPDATE mailroom.leases
        SET renewed_at = epoch, ends_at = epoch + interval '1 millisecond' * lease::double precision
        WHERE batch = ANY (held) AND collector_id = collector
        RETURNING batch
    )
    SELECT pg_catalog.array_agg(batch) INTO kept FROM renewed;

    -- Leases that were renewed in the future: the clock was set back. Who lives renews them within
    -- their time, which begins now; what nobody renews lapses. By a clock that was read after
    -- whatever this call has waited for: others have renewed theirs meanwhile.
    epoch := mailroom.clock();

    UPDATE mailroom.leases
    SET renewed_at = epoch, ends_at = epoch + (ends_at - renewed_at)
    WHERE batch = ANY (ARRAY(
        SELECT misplaced.batch
        FROM mailroom.leases AS misplaced
        WHERE ends_at > epoch + interval '1 second' AND renewed_at > epoch + interval '1 second'
        FOR UPDATE SKIP LOCKED
    ));

    PERFORM mailroom.return_lapsed_leases(coalesce(low_watermark, '-infinity'));

    RETURN QUERY SELECT kept_batch, NULL::timestamptz FROM pg_catalog.unnest(kept) AS kept_batch;
    batch := NULL;
    RETURN NEXT;
END;
$$;

COMMENT ON FUNCTION mailroom.heartbeat(bigint, text, uuid[], bigint, timestamptz, text, bigint,
    text, text, text, text, text, text) IS
    'For collectors: renews the leases held, answers which of them still are, and returns to the '
    'queue what others left behind. Records the sender''s state, as in collectors, for how long it '
    'has been, and why; and the format of tokens and the name of an installation that the '
    'collector has; its version, and as JSON its settings and what it has done. One that comes '
    'with another name than bind() was told is refused. The last row '
    'has no batch, and the time before which nothing in the queue is due, as far as it is known. '
    'Spans are milliseconds.';

CREATE FUNCTION mailroom.bind(name text DEFAULT NULL) RETURNS text
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    UPDATE mailroom.installation
    SET system_identifier = mailroom.cluster_identifier(),
        name = nullif(coalesce(bind.name, installation.name), '')
    RETURNING installation.name;
END;

COMMENT ON FUNCTION mailroom.bind(text) IS
    'For owners: from now on the queue is sent from this cluster, whichever it was sent from '
    'before, by collectors that name the installation so. Null leaves its name, and an empty '
    'name takes it away. Answers the name.';

-- What a collector does now and then when it is otherwise fine. Nobody needs it soon, so it goes
-- round in small parts.
--
-- Locks: rows of the queue that nobody claims yet, of dead letters, of what was handed over, and of
-- payloads. None is waited for: an application that has one can wait for another one.
CREATE FUNCTION mailroom.sweep(later_after timestamptz, most integer, OUT later_through timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
-- Rows that are locked are passed over; a table that is locked is not waited for either.
SET lock_timeout = 300 AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom.clock();
    later timestamptz := greatest(epoch + interval '1 second', later_after);
    second bigint := floor(extract(epoch FROM epoch))::bigint;
    misplaced bigint[];
BEGIN
    -- What was put off waits for its time. All else that lies in the future lies there because the
    -- clock was set back, and so does what was put off in the future, which waits for its pause
    -- from now on. Rows of the same time are looked at together.
    SELECT min(bound.due_at) INTO later_through
    FROM (
        (
            SELECT due_at FROM mailroom.queue
            WHERE priority = 0::smallint AND due_at > later
            ORDER BY due_at
            OFFSET most LIMIT 1
        )
        UNION ALL
        (
            SELECT due_at FROM mailroom.queue
            WHERE priority = 1::smallint AND due_at > later
            ORDER BY due_at
            OFFSET most LIMIT 1
        )
    ) AS bound;

    misplaced := ARRAY(
        SELECT token FROM mailroom.queue
        WHERE priority IN (0::smallint, 1::smallint)
            AND due_at > later
            AND due_at <= coalesce(later_through, 'infinity'::timestamptz)
            AND (put_off_at IS NULL OR put_off_at > epoch + interval '1 second')
        FOR UPDATE SKIP LOCKED
    );

    -- By a clock that is read when the transaction has its number, as peek() needs it.
    epoch := mailroom.clock();

    UPDATE mailroom.queue
    SET due_at = CASE WHEN put_off_at IS NULL THEN epoch
        ELSE epoch + greatest(due_at - put_off_at, interval '0 seconds') END,
        put_off_at = CASE WHEN put_off_at IS NOT NULL THEN epoch END
    WHERE token = ANY (misplaced);

    -- Nobody can use what has expired, and a secret that is not there cannot leak.
    WITH erased AS (
        UPDATE mailroom.dead_letters
        SET secret = NULL, code = NULL
        WHERE token = ANY (ARRAY(
            SELECT token FROM mailroom.dead_letters
            WHERE secret IS NOT NULL AND expires_at <= second
            ORDER BY expires_at
            LIMIT most
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING token
    )
    DELETE FROM mailroom.payloads
    WHERE token = ANY (ARRAY(
        SELECT token FROM mailroom.payloads WHERE token = ANY (ARRAY(SELECT token FROM erased))
        FOR UPDATE SKIP LOCKED
    ));

    -- Of what was handed over and had no verdict, whoever has used the link has the mail, and
    -- nobody waits for what was cancelled or deleted. The rest stays handed over.
    WITH expired AS MATERIALIZED (
        SELECT
            token,
            coalesce((
                SELECT CASE
                    WHEN consumed_at IS NOT NULL THEN 'sent'
                    WHEN cancelled_at IS NOT NULL THEN 'cancelled'
                    ELSE 'handed_over'
                END
                FROM mailroom.issued_tokens WHERE id = token
            ), 'cancelled')::mailroom.outcome AS outcome
        FROM mailroom.handed_over
        WHERE expires_at <= second AND NOT is_expired
        ORDER BY expires_at
        LIMIT most
        FOR UPDATE SKIP LOCKED
    ),
    ended AS (
        DELETE FROM mailroom.handed_over
        WHERE token = ANY (ARRAY(SELECT token FROM expired WHERE outcome <> 'handed_over'))
        RETURNING token, attempts
    ),
    logged AS (
        INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome, reason)
        SELECT
            ARRAY[ended.token], epoch, ended.attempts, expired.outcome,
            CASE expired.outcome WHEN 'sent' THEN 'its link was used'
                ELSE 'it was cancelled or deleted before' END
        FROM ended JOIN expired ON expired.token = ended.token
    ),
    erased AS (
        UPDATE mailroom.handed_over
        SET secret = NULL, code = NULL, is_expired = true
        WHERE token = ANY (ARRAY(SELECT token FROM expired WHERE outcome = 'handed_over'))
    )
    DELETE FROM mailroom.payloads
    WHERE token = ANY (ARRAY(
        SELECT token FROM mailroom.payloads WHERE token = ANY (ARRAY(SELECT token FROM expired))
        FOR UPDATE SKIP LOCKED
    ));
END;
$$;

COMMENT ON FUNCTION mailroom.sweep(timestamptz, integer) IS
    'For collectors: makes due what lies in the future for no other reason than a clock that was '
    'set back, somewhat more than most after a time, and erases the secrets of dead letters and of '
    'what was handed over, that have expired, and ends what was handed over and used; answers how '
    'far it came, null at the end.';

-- Asked by a collector before it sleeps, and now and then. Sees rows that others are just claiming,
-- which may fail to, and such as turn out to be ineligible, which a claim clears away.
--
-- What it answers besides tells from what time on a later look has to begin. Rows enter the queue
-- by a transaction that has its number before it reads the clock, or at the place of a lease, which
-- is in view until then. So when all transactions that had a number at `asked_at` have ended,
-- nothing can come any more that is older than that, nor than what is in view. Those below
-- `unfinished` have. Whether any has a number from `unended` on, no snapshot tells: the caller
-- takes one afterwards.
CREATE FUNCTION mailroom.peek(
    since timestamptz,
    enough integer,
    OUT due bigint,
    OUT lapsed bigint,
    OUT next_after bigint,
    OUT asked_at timestamptz,
    OUT oldest_place timestamptz,
    OUT unfinished bigint,
    OUT unended bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    horizon timestamptz := coalesce(since, '-infinity');
    next_at timestamptz;
BEGIN
    asked_at := mailroom.clock();

    -- One statement, one snapshot: a token that moves between the tables is in one of them.
    SELECT
        coalesce(sum(place.tokens) FILTER (WHERE place.claimable_at <= asked_at),
            0::numeric)::bigint,
        coalesce(
            sum(place.tokens) FILTER (WHERE place.claimable_at <= asked_at
                AND place.is_leased), 0::numeric
        )::bigint,
        min(place.claimable_at) FILTER (WHERE place.claimable_at > asked_at),
        -- A lease lies where it lapses if that is earlier, as after a clock that was set back.
        min(least(place.due_at, place.claimable_at)),
        pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
        pg_snapshot_xmax(pg_current_snapshot())::text::bigint
    INTO due, lapsed, next_at, oldest_place, unfinished, unended
    FROM (
        (
            SELECT due_at, due_at AS claimable_at, 1::bigint AS tokens, false AS is_leased
                FROM mailroom.queue
            WHERE priority = 0::smallint AND due_at >= horizon
            ORDER BY due_at
            LIMIT enough
        )
        UNION ALL
        (
            SELECT due_at, due_at, 1::bigint, false FROM mailroom.queue
            WHERE priority = 1::smallint AND due_at >= horizon
            ORDER BY due_at
            LIMIT enough
        )
        UNION ALL
        SELECT due_at, ends_at, pg_catalog.cardinality(tokens)::bigint, true FROM mailroom.leases
            WHERE ends_at >= horizon
    ) AS place;

    next_after := ceil(extract(epoch FROM next_at - asked_at) * 1000::numeric)::bigint;
END;
$$;

COMMENT ON FUNCTION mailroom.peek(timestamptz, integer) IS
    'For collectors: how many tokens are due, counted to somewhere above enough, and how many of '
    'them are in leases that have lapsed; in how many milliseconds the next thing is, null if '
    'nothing waits; and from what time on to look.';

-- Feature: the queue `deliveries`. A cursor says for all tokens together how far they were sent; it loses a token whose
-- transaction commits late, lets one collector work at a time and cannot say what became of a single token.
--
-- Queue in, log out: where a token stands is where its row is, in one of `pending`, `parked`, `leases` and `dead`, or in
-- none of them when it is done. Delivering inserts and deletes rows and updates none, so that no index fills with dead
-- versions of rows that are still searched; `tokens` is not touched at all. What happened is appended to `handovers`.
--
-- Nothing enters the queue before migration 17.
--
-- Locks: new tables only.

BEGIN;

CREATE TYPE delivery_outcome AS ENUM ('sent', 'error', 'unanswered', 'lapsed', 'dead', 'expired', 'cancelled');

COMMENT ON TYPE delivery_outcome IS
    'How a hand-over of a token ended: the reader has it (sent), refused it for now (error) or for ever (dead), said nothing'
    ' (unanswered), or its collector was not heard of until the lease was over (lapsed). Or why there was none: the token'
    ' expired, or was used or deleted before (cancelled).';

CREATE TABLE pending (
    token bigint NOT NULL,
    due_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    failures smallint NOT NULL DEFAULT 0,
    priority smallint NOT NULL,
    put_off_at timestamptz,

    CONSTRAINT pending_pkey PRIMARY KEY (token)
) WITH (
    -- Rows live for milliseconds. Vacuum comes after a number of dead ones, not after a share of a table that is mostly
    -- empty, and does not pause; it does not give the empty end of the file back either, for which it would lock
    -- registrations out.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 1000000,
    vacuum_truncate = false
);

CREATE INDEX pending_priority_due_at_idx ON pending (priority, due_at);

COMMENT ON TABLE pending IS
    'Tokens that wait to be sent. A row is inserted by the transaction that inserts the token and deleted when it is claimed.';
COMMENT ON COLUMN pending.token IS
    'The token. Not a foreign key, whose check would lock the token''s row; a row whose token is gone is cancelled when it is'
    ' come to.';
COMMENT ON COLUMN pending.due_at IS
    'When it may be claimed: at once for a new token, later after a refusal. The oldest goes first.';
COMMENT ON COLUMN pending.attempts IS 'How often it has been handed over.';
COMMENT ON COLUMN pending.failures IS
    'How many of these count towards the most that there may be: those that ended or silenced the sender, and refusals where'
    ' they are bounded.';
COMMENT ON COLUMN pending.priority IS '0 for recoveries, which somebody waits for, 1 for activations.';
COMMENT ON COLUMN pending.put_off_at IS
    'When it was put off until due_at: by a refusal, an outage, a status that was just being changed, or a time that was asked for.'
    ' Null for all others, which nothing but a clock that was set back keeps waiting.';
COMMENT ON CONSTRAINT pending_pkey ON pending IS 'Serves coming back: a token waits once, however often it is put back.';
COMMENT ON INDEX pending_priority_due_at_idx IS
    'Serves claiming: the oldest of each priority, from the time on before which nothing waits any more. What is due later'
    ' lies behind, where no claim gets.';

CREATE TABLE parked (
    token bigint NOT NULL,
    account bigint NOT NULL,
    parked_at timestamptz NOT NULL,
    expires_at bigint NOT NULL,
    attempts integer NOT NULL,
    failures smallint NOT NULL,
    priority smallint NOT NULL,

    CONSTRAINT parked_pkey PRIMARY KEY (token)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE INDEX parked_account_idx ON parked (account);

COMMENT ON TABLE parked IS
    'Tokens whose account has not the status that they need. They wait again when it has; until they expire.';
COMMENT ON COLUMN parked.token IS 'As in pending.';
COMMENT ON COLUMN parked.account IS 'Whose token it is.';
COMMENT ON COLUMN parked.parked_at IS 'When it was found so.';
COMMENT ON COLUMN parked.expires_at IS 'As in tokens: seconds since the Unix epoch.';
COMMENT ON COLUMN parked.attempts IS 'As in pending.';
COMMENT ON COLUMN parked.failures IS 'As in pending.';
COMMENT ON COLUMN parked.priority IS 'As in pending.';
COMMENT ON INDEX parked_account_idx IS 'Serves changing a status: the tokens of an account that wait for it.';

CREATE TABLE leases (
    batch uuid NOT NULL,
    holder bigint NOT NULL,
    claimed_at timestamptz NOT NULL,
    renewed_at timestamptz NOT NULL,
    ends_at timestamptz NOT NULL,
    due_at timestamptz NOT NULL,
    tokens bigint[] NOT NULL,
    attempts integer[] NOT NULL,
    failures smallint[] NOT NULL,
    priorities smallint[] NOT NULL,

    CONSTRAINT leases_pkey PRIMARY KEY (batch),
    CONSTRAINT leases_same_length CHECK (
        pg_catalog.cardinality(tokens) > 0
        AND pg_catalog.cardinality(attempts) = pg_catalog.cardinality(tokens)
        AND pg_catalog.cardinality(failures) = pg_catalog.cardinality(tokens)
        AND pg_catalog.cardinality(priorities) = pg_catalog.cardinality(tokens)
    )
) WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 1000000,
    vacuum_truncate = false
);

CREATE INDEX leases_ends_at_idx ON leases (ends_at);

COMMENT ON TABLE leases IS
    'Batches that were claimed and of which nothing is known yet. Whoever settles one deletes its row, and nobody can settle a'
    ' batch whose row is gone.';
COMMENT ON COLUMN leases.batch IS 'The batch''s name, chosen at random by the collector before it claims.';
COMMENT ON COLUMN leases.holder IS 'The collector, as in collectors.';
COMMENT ON COLUMN leases.claimed_at IS 'When it was claimed.';
COMMENT ON COLUMN leases.renewed_at IS 'When the collector said last that it has it.';
COMMENT ON COLUMN leases.ends_at IS 'When anybody may take it over. Put off as long as the collector lives.';
COMMENT ON COLUMN leases.due_at IS
    'When the one of its tokens fell due that has waited longest. Tokens that come back unsent come back to this place in the'
    ' queue, not to its end.';
COMMENT ON COLUMN leases.tokens IS 'The tokens, in the order of the line.';
COMMENT ON COLUMN leases.attempts IS 'Of each token, the number of this hand-over, from 1.';
COMMENT ON COLUMN leases.failures IS 'Of each token, as in pending.';
COMMENT ON COLUMN leases.priorities IS 'Of each token, as in pending.';
COMMENT ON INDEX leases_ends_at_idx IS 'Serves taking over what has lapsed.';

CREATE TABLE dead (
    token bigint NOT NULL,
    died_at timestamptz NOT NULL,
    attempts integer NOT NULL,
    failures smallint NOT NULL,
    priority smallint NOT NULL,
    reason text NOT NULL,

    CONSTRAINT dead_pkey PRIMARY KEY (token)
);

COMMENT ON TABLE dead IS 'Tokens that were given up. Putting one back deletes its row, so that it goes out once however many do.';
COMMENT ON COLUMN dead.token IS 'As in pending.';
COMMENT ON COLUMN dead.died_at IS 'When it was given up.';
COMMENT ON COLUMN dead.attempts IS 'As in pending.';
COMMENT ON COLUMN dead.failures IS 'As in pending.';
COMMENT ON COLUMN dead.priority IS 'As in pending.';
COMMENT ON COLUMN dead.reason IS 'What the sender said last, or why the row could not be written on a line.';

CREATE TABLE handovers (
    token bigint NOT NULL,
    happened_at timestamptz NOT NULL,
    holder bigint,
    batch uuid,
    attempt integer NOT NULL,
    outcome delivery_outcome NOT NULL,
    reason text
) WITH (
    -- Only appended to and pruned. Inserts alone make it worth a visit early, because they are frozen then in small steps.
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.1
);

-- Rows have no key, and pruning deletes some: a publication of all tables would make that fail otherwise.
ALTER TABLE handovers REPLICA IDENTITY FULL;

CREATE INDEX handovers_token_idx ON handovers (token);
CREATE INDEX handovers_happened_at_idx ON handovers USING brin (happened_at);

COMMENT ON TABLE handovers IS
    'What became of each hand-over of each token: rows are appended and pruned, never changed.';
COMMENT ON COLUMN handovers.token IS 'The token; it may have been deleted since.';
COMMENT ON COLUMN handovers.happened_at IS 'When that was known.';
COMMENT ON COLUMN handovers.holder IS 'The collector that had the batch or, where there was none, that came to the token.';
COMMENT ON COLUMN handovers.batch IS 'The batch; null for a token that was not handed over.';
COMMENT ON COLUMN handovers.attempt IS 'Which hand-over of the token, from 1; where there was none, how many there were before.';
COMMENT ON COLUMN handovers.outcome IS 'How it ended.';
COMMENT ON COLUMN handovers.reason IS
    'What the sender said, for error and dead; for unanswered why the whole sender was unavailable, if it was.';
COMMENT ON INDEX handovers_token_idx IS 'Serves the view deliveries: the history of a token.';
COMMENT ON INDEX handovers_happened_at_idx IS 'Serves pruning: where the oldest rows lie.';

CREATE TABLE collectors (
    holder bigint NOT NULL,
    name text NOT NULL,
    started_at timestamptz NOT NULL,

    CONSTRAINT collectors_pkey PRIMARY KEY (holder)
);

COMMENT ON TABLE collectors IS 'Processes that collect or have collected; says who a holder is.';
COMMENT ON COLUMN collectors.holder IS 'Chosen at random by the process when it starts.';
COMMENT ON COLUMN collectors.name IS 'Host and process id, as the process knows them.';
COMMENT ON COLUMN collectors.started_at IS 'When it came first.';

-- Null where this may not be asked: such a queue is bound to no cluster.
CREATE FUNCTION cluster_identifier() RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT system_identifier FROM pg_catalog.pg_control_system());
EXCEPTION WHEN insufficient_privilege THEN
    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION cluster_identifier() IS
    'What tells this cluster from others, but not from its physical copies; null if its owner may not know.';

CREATE TABLE installation (
    is_only boolean NOT NULL DEFAULT true,
    log_complete_since timestamptz NOT NULL,
    system_identifier bigint,

    CONSTRAINT installation_pkey PRIMARY KEY (is_only),
    CONSTRAINT installation_one_row CHECK (is_only)
);

INSERT INTO installation (log_complete_since, system_identifier) VALUES (clock_timestamp(), cluster_identifier());

COMMENT ON TABLE installation IS 'One row: what this installation of Mailroom keeps about itself.';
COMMENT ON COLUMN installation.is_only IS 'True; its key allows no second row.';
COMMENT ON COLUMN installation.system_identifier IS
    'The cluster that the queue is sent from. In a dump that was restored into another one it is another''s, and nothing is sent.';

COMMENT ON COLUMN installation.log_complete_since IS
    'From then on every hand-over is in handovers; what was done before did not exist or was pruned.';

-- The only clock of the queue. A function, so that a test can turn it: collectors have no say in what time it is.
CREATE FUNCTION mailroom_clock() RETURNS timestamptz
LANGUAGE sql VOLATILE
RETURN clock_timestamp();

COMMENT ON FUNCTION mailroom_clock() IS 'What time it is for the queue of deliveries.';

CREATE FUNCTION delivery_priority(action token_action) RETURNS smallint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE action::text WHEN 'password_recovery' THEN 0::smallint ELSE 1::smallint END;

COMMENT ON FUNCTION delivery_priority(token_action) IS
    'What goes first: 0, recoveries, before 1, activations; as far as the lower one is not starved.';

-- In a database with another encoding than UTF-8 a text may have no UTF-8 form; the row is sent as a byte that is none, which
-- no line takes, so that the token is given up and the others of its batch go out.
CREATE FUNCTION text_on_the_wire(value text) RETURNS bytea
LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
    RETURN pg_catalog.convert_to(value, 'UTF8'::name);
EXCEPTION WHEN untranslatable_character OR character_not_in_repertoire THEN
    RETURN '\xff'::bytea;
END;
$$;

COMMENT ON FUNCTION text_on_the_wire(text) IS 'Text in UTF-8, or one byte that is not, if it has no such form.';

-- The functions that collectors call run with the rights of their owner, so that whoever has a collector's password reads
-- what is due and nothing else: neither addresses nor secrets of used tokens. On their search path see mailroom_redeem();
-- polymorphic functions, for which one for exactly these types would be a better match, are named with their schema.
--
-- Their plans must not depend on how full the tables were when they were planned: an index is right in every case.

CREATE FUNCTION return_lapsed_leases(since timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom_clock();
BEGIN
    WITH
    -- Whoever is settling or taking over one of them just now is not waited for.
    lapsed AS MATERIALIZED (
        SELECT batch FROM leases
        WHERE ends_at >= return_lapsed_leases.since AND ends_at <= epoch
        ORDER BY ends_at
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    ),
    gone AS (
        DELETE FROM leases WHERE batch = ANY (ARRAY(SELECT batch FROM lapsed)) RETURNING *
    ),
    items AS (
        SELECT gone.holder, gone.batch, gone.due_at, item.*
        FROM gone
        CROSS JOIN LATERAL ROWS FROM (
            pg_catalog.unnest(tokens), pg_catalog.unnest(attempts), pg_catalog.unnest(failures), pg_catalog.unnest(priorities)
        ) AS item (token, attempt, failures, priority)
    ),
    logged AS (
        INSERT INTO handovers (token, happened_at, holder, batch, attempt, outcome)
        SELECT token, epoch, holder, batch, attempt, 'lapsed' FROM items
    )
    INSERT INTO pending (token, due_at, attempts, failures, priority)
    SELECT token, least(due_at, mailroom_clock()), attempt, failures, priority FROM items
    ON CONFLICT DO NOTHING;
END;
$$;

COMMENT ON FUNCTION return_lapsed_leases(timestamptz) IS
    'Puts the tokens of leases back that have lapsed, and logs it.';

-- Settles batches of which not all tokens were sent; answers which tokens were given up, also when that is repeated. A refusal counts
-- only where the collector says so, and an outage of the whole sender never does: it would kill the mails of links that live a
-- quarter of an hour. Tokens that live long are tried again at most once an hour. Kinds of exceptions: 'dead'; 'refused', for now; 'failed', also for now, but only max_attempts times
-- ('error' says the same); 'unavailable', back to its place or after its wait, and no failure; 'unanswered'.
CREATE FUNCTION settle_exceptions(
    settled uuid[],
    exception_batches uuid[],
    exception_tokens bigint[],
    exception_kinds text[],
    exception_waits bigint[],
    exception_reasons text[],
    max_attempts integer,
    backoff bigint,
    too_late bigint
) RETURNS TABLE (batch uuid, token bigint, attempt integer)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom_clock();
BEGIN
    WITH
    gone AS (
        DELETE FROM leases WHERE batch = ANY (settled) RETURNING *
    ),
    exceptions AS (
        SELECT *
        FROM ROWS FROM (
            pg_catalog.unnest(exception_batches), pg_catalog.unnest(exception_tokens), pg_catalog.unnest(exception_kinds),
            pg_catalog.unnest(exception_waits), pg_catalog.unnest(exception_reasons)
        ) AS exception (batch, token, kind, wait, reason)
    ),
    items AS MATERIALIZED (
        SELECT
            gone.holder,
            gone.batch,
            gone.due_at,
            item.token,
            item.attempt,
            item.failures,
            item.priority,
            exceptions.kind,
            exceptions.wait,
            exceptions.reason,
            -- In seconds. What expires before its pause is over waits until then, so that it is counted then.
            (
                SELECT greatest(expires_at::double precision - too_late::double precision, 0::double precision)
                FROM tokens
                WHERE id = item.token AND exceptions.kind IS NOT NULL
            ) AS lifetime,
            -- Not the failures, which a refusal need not be. A pause stops growing long before twenty.
            (
                SELECT count(*)
                FROM (
                    SELECT
                    FROM handovers
                    WHERE token = item.token
                        AND outcome OPERATOR(pg_catalog.=) 'error'
                        AND exceptions.kind IN ('refused', 'failed', 'error')
                    LIMIT 20
                ) AS refusal
            ) AS refusals,
            CASE
                WHEN exceptions.kind IS NULL THEN 'sent'
                WHEN exceptions.kind IN ('failed', 'error') AND item.failures::integer + 1 >= max_attempts THEN 'dead'
                WHEN exceptions.kind IN ('refused', 'failed') THEN 'error'
                WHEN exceptions.kind = 'unavailable' THEN 'unanswered'
                ELSE exceptions.kind
            END AS outcome
        FROM gone
        CROSS JOIN LATERAL ROWS FROM (
            pg_catalog.unnest(gone.tokens), pg_catalog.unnest(gone.attempts), pg_catalog.unnest(gone.failures),
            pg_catalog.unnest(gone.priorities)
        ) AS item (token, attempt, failures, priority)
        LEFT JOIN exceptions ON exceptions.batch = gone.batch AND exceptions.token = item.token
    ),
    logged AS (
        INSERT INTO handovers (token, happened_at, holder, batch, attempt, outcome, reason)
        SELECT token, epoch, holder, batch, attempt, outcome::delivery_outcome, reason FROM items
    ),
    given_up AS (
        INSERT INTO dead (token, died_at, attempts, failures, priority, reason)
        SELECT token, epoch, attempt, least(failures::integer + 1, 32767)::smallint, priority, coalesce(reason, '')
        FROM items
        WHERE outcome = 'dead'
        ON CONFLICT DO NOTHING
    )
    INSERT INTO pending (token, due_at, attempts, failures, priority, put_off_at)
    SELECT
        token,
        CASE
            -- To its place, which lies in the future only if the clock was set back.
            WHEN outcome = 'unanswered' AND wait IS NULL THEN least(due_at, mailroom_clock())
            ELSE epoch + interval '1 millisecond' * least(
                CASE
                    -- Others come first. At least a thousandth of its life, so that a token of days is not tried all the time,
                    -- but of that at most a minute: it may be the outage's fault, which can be over any moment.
                    WHEN outcome = 'unanswered' AND wait > 1000::bigint
                    THEN greatest(wait::double precision, least(lifetime, 60000::double precision))
                    -- As the sender wants it, within a day.
                    WHEN wait IS NOT NULL THEN least(wait, 86400000::bigint)::double precision
                    -- Doubling from the first pause up to a minute, or to a part of its life, up to an hour; between half
                    -- and all of that, so that what failed together does not come back together.
                    ELSE least(
                        backoff::double precision * power(2::double precision, refusals::double precision),
                        greatest(
                            backoff::double precision,
                            60000::double precision,
                            least(lifetime * 1000::double precision / 24::double precision, 3600000::double precision)
                        )
                    ) * (0.5::double precision + random() / 2::double precision)
                END,
                lifetime * 1000::double precision
            )
        END,
        attempt,
        CASE WHEN kind IN ('failed', 'error') THEN least(failures::integer + 1, 32767)::smallint ELSE failures END,
        priority,
        CASE WHEN outcome = 'error' OR wait IS NOT NULL THEN epoch END
    FROM items
    WHERE outcome IN ('error', 'unanswered')
    ON CONFLICT DO NOTHING;

    -- From the log, not from what was just done: where the connection broke before the answer, the same is settled again, and the
    -- leases are gone. A statement of its own, since only such a one sees what was committed while this waited for the leases.
    RETURN QUERY
    SELECT batch, token, attempt
    FROM handovers
    WHERE token = ANY (exception_tokens)
        AND batch = ANY (settled)
        AND outcome OPERATOR(pg_catalog.=) 'dead'
    ORDER BY batch, token;
END;
$$;

COMMENT ON FUNCTION settle_exceptions(uuid[], uuid[], bigint[], text[], bigint[], text[], integer, bigint, bigint) IS
    'Settles batches of which not all tokens were sent, and answers which tokens were given up.';

-- Settles finished batches, gives unsent ones back, and claims the next ones.
--
-- Locks: rows of leases by name, which waits for somebody who takes one over; then rows of pending and, shared, accounts whose
-- tokens are parked, which waits for nobody.
CREATE FUNCTION mailroom_exchange(
    collector bigint,
    settled uuid[],
    released uuid[],
    exception_batches uuid[],
    exception_tokens bigint[],
    exception_kinds text[],
    exception_waits bigint[],
    exception_reasons text[],
    max_attempts integer,
    backoff bigint,
    wanted uuid[],
    batch_limit integer,
    partial boolean,
    looks integer,
    turn integer,
    recoveries_since timestamptz,
    activations_since timestamptz,
    lease bigint,
    min_lifetime bigint
) RETURNS TABLE (
    batch uuid,
    token bigint,
    attempt integer,
    action text,
    email bytea,
    login bytea,
    secret bytea,
    code bytea,
    expires_at bigint,
    looked integer,
    waiting integer,
    expired integer,
    cancelled integer,
    parked integer,
    recoveries_through timestamptz,
    activations_through timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom_clock();
    -- Tokens that end at this second or before are not sent any more.
    too_late bigint := floor(extract(epoch FROM epoch))::bigint + greatest(min_lifetime, 1::bigint) - 1::bigint;
    is_utf8 boolean := getdatabaseencoding()::text IN ('UTF8', 'SQL_ASCII');
    encoding name := getdatabaseencoding();
    first_slot bigint := (6 - turn)::bigint;
    reserved integer := 0;
BEGIN
    IF pg_catalog.cardinality(settled) > 0 AND pg_catalog.cardinality(exception_tokens) = 0 THEN
        WITH gone AS (
            DELETE FROM leases WHERE batch = ANY (settled) RETURNING *
        )
        INSERT INTO handovers (token, happened_at, holder, batch, attempt, outcome)
        SELECT pg_catalog.unnest(gone.tokens), epoch, gone.holder, gone.batch, pg_catalog.unnest(gone.attempts), 'sent'
        FROM gone;
    ELSIF pg_catalog.cardinality(settled) > 0 THEN
        -- A token that is given up is answered with its attempt and without an action.
        RETURN QUERY
        SELECT
            given_up.batch, given_up.token, given_up.attempt, NULL::text, NULL::bytea, NULL::bytea, NULL::bytea, NULL::bytea,
            NULL::bigint, NULL::integer, NULL::integer, NULL::integer, NULL::integer, NULL::integer, NULL::timestamptz,
            NULL::timestamptz
        FROM settle_exceptions(
            settled, exception_batches, exception_tokens, exception_kinds, exception_waits, exception_reasons, max_attempts,
            backoff, too_late
        ) AS given_up;
    END IF;

    -- Nothing of them was sent, so that was no hand-over.
    IF pg_catalog.cardinality(released) > 0 THEN
        WITH
        gone AS (
            DELETE FROM leases WHERE batch = ANY (released) AND holder = collector RETURNING *
        )
        INSERT INTO pending (token, due_at, attempts, failures, priority)
        SELECT item.token, least(gone.due_at, mailroom_clock()), item.attempt - 1, item.failures, item.priority
        FROM gone
        CROSS JOIN LATERAL ROWS FROM (
            pg_catalog.unnest(gone.tokens), pg_catalog.unnest(gone.attempts), pg_catalog.unnest(gone.failures),
            pg_catalog.unnest(gone.priorities)
        ) AS item (token, attempt, failures, priority)
        ON CONFLICT DO NOTHING;
    END IF;

    IF pg_catalog.cardinality(wanted) = 0 THEN
        RETURN;
    END IF;

    -- Every seventh place is an activation's, if one waits: of a hundred rows at least ten are, also where several collectors
    -- count for themselves.
    SELECT count(*)::integer INTO reserved
    FROM (
        SELECT FROM pending
        WHERE priority = 1::smallint AND due_at >= coalesce(activations_since, '-infinity') AND due_at <= epoch
        LIMIT (turn + looks) / 7
    ) AS activation;

    RETURN QUERY
    WITH
    -- Rows that another collector is just claiming are passed over.
    recoveries AS MATERIALIZED (
        SELECT token, due_at, attempts, failures, priority
        FROM pending
        WHERE priority = 0::smallint AND due_at >= coalesce(recoveries_since, '-infinity') AND due_at <= epoch
        ORDER BY due_at
        LIMIT looks - reserved
        FOR UPDATE SKIP LOCKED
    ),
    activations AS MATERIALIZED (
        SELECT token, due_at, attempts, failures, priority
        FROM pending
        WHERE priority = 1::smallint AND due_at >= coalesce(activations_since, '-infinity') AND due_at <= epoch
        ORDER BY due_at
        LIMIT looks - (SELECT count(*) FROM recoveries)
        FOR UPDATE SKIP LOCKED
    ),
    -- In the order in which they go out: recoveries in all places but every seventh.
    picked AS (
        SELECT *, CASE WHEN nth < first_slot THEN nth ELSE nth + 1::bigint + (nth - first_slot) / 6::bigint END AS slot
        FROM (SELECT *, row_number() OVER (ORDER BY due_at) - 1::bigint AS nth FROM recoveries) AS counted
        UNION ALL
        SELECT *, first_slot + 7::bigint * nth
        FROM (SELECT *, row_number() OVER (ORDER BY due_at) - 1::bigint AS nth FROM activations) AS counted
        ORDER BY slot
    ),
    -- OFFSET 0 keeps these look-ups by primary key for each row.
    judged AS MATERIALIZED (
        -- What is asked most comes first: to get at a column, those before it are taken apart.
        SELECT
            verdict,
            count(*) FILTER (WHERE verdict = 'eligible') OVER (ORDER BY slot ROWS UNBOUNDED PRECEDING) AS number,
            picked.token,
            picked.due_at,
            picked.attempts,
            picked.failures,
            picked.priority,
            candidate.action,
            candidate.secret,
            candidate.code,
            candidate.expires_at,
            candidate.needed_status,
            account.id AS account,
            account.email,
            account.login
        FROM picked
        LEFT JOIN LATERAL (
            SELECT
                id,
                tokens.action::text,
                -- As status_needed_by() has it, which costs more to call than all the rest of this statement.
                CASE tokens.action::text
                    WHEN 'activation' THEN 'provisioned'
                    WHEN 'password_recovery' THEN 'active'
                END AS needed_status,
                tokens.secret,
                tokens.code::text,
                tokens.expires_at,
                consumed_at,
                cancelled_at,
                recipient::text,
                account
            FROM tokens
            WHERE id = picked.token
            OFFSET 0
        ) AS candidate ON true
        LEFT JOIN LATERAL (
            SELECT id, status::text, accounts.email::text, accounts.login::text
            FROM accounts
            WHERE id = candidate.account
            OFFSET 0
        ) AS account ON true
        CROSS JOIN LATERAL (
            SELECT CASE
                WHEN candidate.id IS NULL OR candidate.consumed_at IS NOT NULL OR candidate.cancelled_at IS NOT NULL THEN 'cancelled'
                WHEN candidate.expires_at <= too_late THEN 'expired'
                -- Its address changed, and the change did not see it.
                WHEN candidate.recipient <> account.email COLLATE "C" THEN 'cancelled'
                WHEN account.status = candidate.needed_status THEN 'eligible'
                ELSE 'ineligible'
            END AS verdict
        ) AS judgement
    ),
    others AS MATERIALIZED (
        SELECT * FROM judged WHERE verdict <> 'eligible'
    ),
    -- How many of the eligible ones go out.
    share AS MATERIALIZED (
        SELECT least(
            CASE WHEN partial THEN count(*) ELSE count(*) - count(*) % batch_limit::bigint END,
            pg_catalog.cardinality(wanted)::bigint * batch_limit::bigint
        ) AS taken
        FROM judged
        WHERE verdict = 'eligible'
    ),
    taken AS (
        SELECT * FROM judged WHERE verdict = 'eligible' AND number <= (SELECT share.taken FROM share)
    ),
    -- All of them in one row, to be cut into batches.
    bundle AS (
        SELECT
            count(*) AS size,
            min(due_at) AS due_at,
            pg_catalog.array_agg(token) AS tokens,
            pg_catalog.array_agg(attempts + 1) AS attempts,
            pg_catalog.array_agg(failures) AS failures,
            pg_catalog.array_agg(priority) AS priorities
        FROM (SELECT token, due_at, attempts, failures, priority FROM taken ORDER BY number) AS in_order
    ),
    leased AS (
        INSERT INTO leases (batch, holder, claimed_at, renewed_at, ends_at, due_at, tokens, attempts, failures, priorities)
        SELECT
            wanted[nth],
            collector,
            epoch,
            epoch,
            epoch + interval '1 millisecond' * lease::double precision,
            due_at,
            tokens[(nth - 1) * batch_limit + 1 : nth * batch_limit],
            attempts[(nth - 1) * batch_limit + 1 : nth * batch_limit],
            failures[(nth - 1) * batch_limit + 1 : nth * batch_limit],
            priorities[(nth - 1) * batch_limit + 1 : nth * batch_limit]
        FROM bundle
        CROSS JOIN LATERAL generate_series(1, ((size + batch_limit::bigint - 1::bigint) / batch_limit::bigint)::integer) AS nth
    ),
    -- A status that is being changed is not waited for, and one that has been changed meanwhile does not come back from
    -- here. One that changes afterwards finds the parked token.
    parkable AS MATERIALIZED (
        SELECT others.*
        FROM others
        CROSS JOIN LATERAL (
            SELECT
            FROM accounts
            WHERE id = others.account AND status::text IS DISTINCT FROM others.needed_status
            FOR SHARE SKIP LOCKED
        ) AS account
        WHERE verdict = 'ineligible'
    ),
    put_aside AS (
        INSERT INTO parked (token, account, parked_at, expires_at, attempts, failures, priority)
        SELECT token, account, epoch, expires_at, attempts, failures, priority
        FROM parkable
        ON CONFLICT DO NOTHING
    ),
    -- Those are looked at again in a moment, and are in nobody's way until then. A row that was put off before waits twice as long
    -- again, up to half a minute: a transaction that holds thousands of accounts costs a few looks at each, however long it takes.
    put_off AS (
        UPDATE pending
        SET put_off_at = epoch,
            due_at = epoch + least(
                greatest((due_at - put_off_at) * 2::double precision, interval '250 milliseconds'), interval '30 seconds'
            )
        WHERE token = ANY (ARRAY(
            SELECT token FROM others
            WHERE verdict = 'ineligible' AND NOT EXISTS (SELECT FROM parkable WHERE parkable.token = others.token)
        ))
    ),
    logged AS (
        INSERT INTO handovers (token, happened_at, holder, attempt, outcome)
        SELECT token, epoch, collector, attempts, verdict::delivery_outcome
        FROM others
        WHERE verdict IN ('cancelled', 'expired')
    ),
    -- By token, not by place in the table: a row that was put off between this statement's snapshot and its lock lies at
    -- another place, which the snapshot does not show.
    removed AS (
        DELETE FROM pending
        WHERE token = ANY (ARRAY(
            SELECT token FROM taken
            UNION ALL
            SELECT token FROM parkable
            UNION ALL
            SELECT token FROM others WHERE verdict IN ('cancelled', 'expired')
        ))
    ),
    left_over AS (
        SELECT
            count(*) AS waiting,
            min(due_at) FILTER (WHERE priority = 0::smallint) AS recoveries_from,
            min(due_at) FILTER (WHERE priority = 1::smallint) AS activations_from
        FROM judged
        WHERE verdict = 'eligible' AND number > (SELECT share.taken FROM share)
    )
    SELECT
        wanted[(1::bigint + (taken.number - 1::bigint) / batch_limit::bigint)::integer],
        taken.token,
        taken.attempts + 1,
        taken.action,
        CASE WHEN is_utf8 THEN convert_to(taken.email, encoding) ELSE text_on_the_wire(taken.email) END,
        CASE WHEN is_utf8 THEN convert_to(taken.login, encoding) ELSE text_on_the_wire(taken.login) END,
        taken.secret,
        CASE WHEN is_utf8 THEN convert_to(taken.code, encoding) ELSE text_on_the_wire(taken.code) END,
        taken.expires_at,
        NULL::integer,
        NULL::integer,
        NULL::integer,
        NULL::integer,
        NULL::integer,
        NULL::timestamptz,
        NULL::timestamptz
    FROM taken
    UNION ALL
    -- The last row says what was found; where to begin next time is after what was taken and at what was left.
    SELECT
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        count(*)::integer,
        (SELECT left_over.waiting FROM left_over)::integer,
        (count(*) FILTER (WHERE verdict = 'expired'))::integer,
        (count(*) FILTER (WHERE verdict = 'cancelled'))::integer,
        (SELECT count(*) FROM parkable)::integer,
        coalesce(
            (SELECT recoveries_from FROM left_over), max(due_at) FILTER (WHERE priority = 0::smallint), recoveries_since
        ),
        coalesce(
            (SELECT activations_from FROM left_over), max(due_at) FILTER (WHERE priority = 1::smallint), activations_since
        )
    FROM judged;
END;
$$;

COMMENT ON FUNCTION mailroom_exchange(
    bigint, uuid[], uuid[], uuid[], bigint[], text[], bigint[], text[], integer, bigint,
    uuid[], integer, boolean, integer, integer, timestamptz, timestamptz, bigint, bigint
) IS
    'For collectors: settles batches, gives batches back, and claims batches of what is due. Spans are milliseconds, but for'
    ' min_lifetime, in seconds.';

-- What a collector does every few seconds: says that it lives and what it holds, and gives back what nobody holds any more.
-- A call that comes late, when its collector has long had another connection, changes nothing of what that claimed since.
-- Leases lapse if it takes too long, so nothing in it grows with the number of tokens that wait or are parked.
CREATE FUNCTION mailroom_tend(collector bigint, name text, held uuid[], lease bigint, since timestamptz)
RETURNS TABLE (batch uuid)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom_clock();
    horizon timestamptz := coalesce(since, '-infinity');
    kept uuid[];
BEGIN
    -- A collector calls this before it claims anything. A copy of a product's database must not mail its people.
    IF (SELECT system_identifier <> cluster_identifier() FROM installation) THEN
        RAISE EXCEPTION 'this queue belongs to another PostgreSQL cluster, from which its database was restored or upgraded; if this'
            ' cluster is to send its mails, and no other, run `mailroom migrate bind`'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;

    INSERT INTO collectors (holder, name, started_at)
    VALUES (collector, mailroom_tend.name, epoch)
    ON CONFLICT DO NOTHING;

    -- Own leases, also lapsed ones that nobody has taken over.
    WITH renewed AS (
        UPDATE leases
        SET renewed_at = epoch, ends_at = epoch + interval '1 millisecond' * lease::double precision
        WHERE batch = ANY (held) AND holder = collector
        RETURNING batch
    )
    SELECT pg_catalog.array_agg(batch) INTO kept FROM renewed;

    -- Leases that were renewed in the future: the clock was set back. Who lives renews them within their time, which begins
    -- now; what nobody renews lapses. By a clock that was read after whatever this call has waited for: others have renewed
    -- theirs meanwhile.
    epoch := mailroom_clock();

    UPDATE leases
    SET renewed_at = epoch, ends_at = epoch + (ends_at - renewed_at)
    WHERE batch = ANY (ARRAY(
        SELECT misplaced.batch
        FROM leases AS misplaced
        WHERE ends_at > epoch + interval '1 second' AND renewed_at > epoch + interval '1 second'
        FOR UPDATE SKIP LOCKED
    ));

    PERFORM return_lapsed_leases(horizon);

    RETURN QUERY SELECT * FROM pg_catalog.unnest(kept);
END;
$$;

COMMENT ON FUNCTION mailroom_tend(bigint, text, uuid[], bigint, timestamptz) IS
    'For collectors: renews the leases held, answers which of them still are, and returns to the queue what others left behind.'
    ' The span is milliseconds.';

CREATE FUNCTION mailroom_bind() RETURNS void
LANGUAGE sql VOLATILE
AS 'UPDATE installation SET system_identifier = cluster_identifier()';

COMMENT ON FUNCTION mailroom_bind() IS
    'For owners: from now on the queue is sent from this cluster, whichever it was sent from before.';

-- What a collector does now and then when it is otherwise fine. Nobody needs it soon, so it goes round in small parts: it looks
-- at some thousand rows, and stops after a tenth of a second.
--
-- Locks: rows of parked that are ready or over, which waits for nobody, and rows of pending that nobody claims yet.
CREATE FUNCTION mailroom_tidy(
    collector bigint,
    parked_after bigint,
    later_after timestamptz,
    most integer,
    OUT parked_through bigint,
    OUT later_through timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    epoch timestamptz := mailroom_clock();
    second bigint := floor(extract(epoch FROM epoch))::bigint;
    later timestamptz := greatest(epoch + interval '1 second', later_after);
    began timestamptz := clock_timestamp();
    at_token bigint := coalesce(parked_after, '-9223372036854775808'::bigint);
    seen integer;
    last_seen bigint;
    looks integer := 0;
BEGIN
    LOOP
        WITH
        looked_at AS MATERIALIZED (
            SELECT token, account, expires_at FROM parked WHERE token > at_token ORDER BY token LIMIT 500
        ),
        judged AS MATERIALIZED (
            SELECT
                looked_at.token,
                CASE
                    WHEN candidate.id IS NULL OR candidate.consumed_at IS NOT NULL OR candidate.cancelled_at IS NOT NULL THEN 'cancelled'
                    WHEN looked_at.expires_at <= second THEN 'expired'
                    -- All the same: a transaction of a stricter isolation level that changed the status did not see them.
                    WHEN account.status = candidate.needed_status THEN 'ready'
                END AS verdict
            FROM looked_at
            LEFT JOIN LATERAL (
                SELECT
                    id,
                    consumed_at,
                    cancelled_at,
                    -- As status_needed_by() has it.
                    CASE tokens.action::text
                        WHEN 'activation' THEN 'provisioned'
                        WHEN 'password_recovery' THEN 'active'
                    END AS needed_status
                FROM tokens
                WHERE id = looked_at.token
                OFFSET 0
            ) AS candidate ON true
            LEFT JOIN LATERAL (
                SELECT status::text FROM accounts WHERE id = looked_at.account OFFSET 0
            ) AS account ON true
        ),
        locked AS MATERIALIZED (
            SELECT token FROM parked
            WHERE token = ANY (ARRAY(SELECT token FROM judged WHERE verdict IS NOT NULL))
            FOR UPDATE SKIP LOCKED
        ),
        gone AS (
            DELETE FROM parked WHERE token = ANY (ARRAY(SELECT token FROM locked)) RETURNING *
        ),
        logged AS (
            INSERT INTO handovers (token, happened_at, holder, attempt, outcome)
            SELECT gone.token, epoch, collector, gone.attempts, judged.verdict::delivery_outcome
            FROM gone
            JOIN judged ON judged.token = gone.token
            WHERE judged.verdict <> 'ready'
        ),
        back AS (
            INSERT INTO pending (token, due_at, attempts, failures, priority)
            SELECT gone.token, mailroom_clock(), gone.attempts, gone.failures, gone.priority
            FROM gone
            JOIN judged ON judged.token = gone.token
            WHERE judged.verdict = 'ready'
            ON CONFLICT DO NOTHING
        )
        SELECT count(*)::integer, max(token) INTO seen, last_seen FROM looked_at;

        EXIT WHEN seen < 500;

        at_token := last_seen;
        looks := looks + seen;

        IF looks >= most OR clock_timestamp() - began > interval '100 milliseconds' THEN
            parked_through := at_token;
            EXIT;
        END IF;
    END LOOP;

    -- What was put off waits for its time. All else that lies in the future lies there because the clock was set
    -- back, and so does what was put off in the future, which waits for its pause from now on. Rows of the same time are looked at together.
    SELECT min(bound.due_at) INTO later_through
    FROM (
        (
            SELECT due_at FROM pending
            WHERE priority = 0::smallint AND due_at > later
            ORDER BY due_at
            OFFSET most LIMIT 1
        )
        UNION ALL
        (
            SELECT due_at FROM pending
            WHERE priority = 1::smallint AND due_at > later
            ORDER BY due_at
            OFFSET most LIMIT 1
        )
    ) AS bound;

    epoch := mailroom_clock();

    UPDATE pending
    SET due_at = CASE WHEN put_off_at IS NULL THEN epoch ELSE epoch + greatest(due_at - put_off_at, interval '0 seconds') END,
        put_off_at = CASE WHEN put_off_at IS NOT NULL THEN epoch END
    WHERE priority IN (0::smallint, 1::smallint)
        AND due_at > later
        AND due_at <= coalesce(later_through, 'infinity'::timestamptz)
        AND (put_off_at IS NULL OR put_off_at > epoch + interval '1 second');
END;
$$;

COMMENT ON FUNCTION mailroom_tidy(bigint, bigint, timestamptz, integer) IS
    'For collectors: clears parked tokens away that have expired, or were used or deleted, returns those that can be sent, and'
    ' makes due what lies in the future for no other reason than a clock that was set back; looks at the next ones after a'
    ' token and after a time, somewhat more than most of each, and answers how far it came, null at the end.';

-- Asked by a collector before it sleeps, and now and then. Sees rows that others are just claiming, which may fail to, and such
-- as turn out to be ineligible, which a claim clears away.
--
-- What it answers besides tells from what time on a later look has to begin. Rows enter pending by a transaction that has
-- its number before it reads the clock, or at the place of a lease, which is in view until then. So when all transactions that
-- had a number at `asked_at` have ended, nothing can come any more that is older than that, nor than what is in view. Those
-- below `unfinished` have. Whether any has a number from `unended` on, no snapshot tells: the caller takes one afterwards.
CREATE FUNCTION mailroom_prospect(
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
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    horizon timestamptz := coalesce(since, '-infinity');
    next_at timestamptz;
BEGIN
    asked_at := mailroom_clock();

    -- One statement, one snapshot: a token that moves between the tables is in one of them.
    SELECT
        coalesce(sum(place.tokens) FILTER (WHERE place.claimable_at <= asked_at), 0::numeric)::bigint,
        coalesce(
            sum(place.tokens) FILTER (WHERE place.claimable_at <= asked_at AND place.is_leased), 0::numeric
        )::bigint,
        min(place.claimable_at) FILTER (WHERE place.claimable_at > asked_at),
        -- A lease lies where it lapses if that is earlier, as after a clock that was set back.
        min(least(place.due_at, place.claimable_at)),
        pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
        pg_snapshot_xmax(pg_current_snapshot())::text::bigint
    INTO due, lapsed, next_at, oldest_place, unfinished, unended
    FROM (
        (
            SELECT due_at, due_at AS claimable_at, 1::bigint AS tokens, false AS is_leased FROM pending
            WHERE priority = 0::smallint AND due_at >= horizon
            ORDER BY due_at
            LIMIT enough
        )
        UNION ALL
        (
            SELECT due_at, due_at, 1::bigint, false FROM pending
            WHERE priority = 1::smallint AND due_at >= horizon
            ORDER BY due_at
            LIMIT enough
        )
        UNION ALL
        SELECT due_at, ends_at, pg_catalog.cardinality(tokens)::bigint, true FROM leases WHERE ends_at >= horizon
    ) AS place;

    next_after := ceil(extract(epoch FROM next_at - asked_at) * 1000::numeric)::bigint;
END;
$$;

COMMENT ON FUNCTION mailroom_prospect(timestamptz, integer) IS
    'For collectors: how many tokens are due, counted to somewhere above enough, and how many of them are in leases that have'
    ' lapsed; in how many milliseconds the next thing is, null if nothing waits; and from what time on to look.';

CREATE FUNCTION mailroom_retry(tokens bigint[]) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH
    gone AS (
        DELETE FROM dead WHERE token = ANY (mailroom_retry.tokens) RETURNING *
    ),
    back AS (
        INSERT INTO pending (token, due_at, attempts, failures, priority)
        SELECT token, mailroom_clock(), attempts, 0::smallint, priority FROM gone
        ON CONFLICT DO NOTHING
        RETURNING token
    )
    SELECT token FROM back ORDER BY token;
END;
$$;

COMMENT ON FUNCTION mailroom_retry(bigint[]) IS
    'Puts dead tokens back, with all their attempts left; answers which.';

-- A function of its own: an array that is null by mistake must not put everything back.
CREATE FUNCTION mailroom_retry_all() RETURNS SETOF bigint
LANGUAGE sql VOLATILE
AS 'SELECT mailroom_retry(ARRAY(SELECT token FROM dead))';

COMMENT ON FUNCTION mailroom_retry_all() IS 'Puts all dead tokens back, with all their attempts left; answers which.';

-- Joined, not looked up for each token: a search of all leases for every token takes seconds where there are many of both.
CREATE VIEW deliveries AS
SELECT
    tokens.id AS token,
    place.state,
    place.attempts,
    place.since,
    place.holder,
    collectors.name AS collector,
    place.batch,
    place.reason
FROM tokens
LEFT JOIN pending ON pending.token = tokens.id
LEFT JOIN parked ON parked.token = tokens.id
LEFT JOIN dead ON dead.token = tokens.id
LEFT JOIN (
    SELECT item.token, item.attempt, leases.claimed_at, leases.holder, leases.batch
    FROM leases
    CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(leases.tokens), pg_catalog.unnest(leases.attempts)) AS item (token, attempt)
) AS leased ON leased.token = tokens.id
LEFT JOIN LATERAL (
    SELECT handovers.outcome::text, handovers.attempt, handovers.happened_at, handovers.holder, handovers.batch, handovers.reason
    FROM handovers
    WHERE handovers.token = tokens.id
    ORDER BY handovers.happened_at DESC, handovers.attempt DESC
    LIMIT 1
) AS last ON true
CROSS JOIN installation
CROSS JOIN LATERAL (
    SELECT 'pending' AS state, pending.attempts, pending.due_at AS since, NULL::bigint AS holder, NULL::uuid AS batch, NULL::text AS reason
    WHERE pending.token IS NOT NULL
    UNION ALL
    SELECT 'parked', parked.attempts, parked.parked_at, NULL, NULL, 'the account has not the status that the token needs'
    WHERE parked.token IS NOT NULL
    UNION ALL
    SELECT 'dead', dead.attempts, dead.died_at, NULL, NULL, dead.reason WHERE dead.token IS NOT NULL
    UNION ALL
    SELECT 'leased', leased.attempt, leased.claimed_at, leased.holder, leased.batch, NULL WHERE leased.token IS NOT NULL
    UNION ALL
    SELECT last.outcome, last.attempt, last.happened_at, last.holder, last.batch, last.reason WHERE last.outcome IS NOT NULL
    UNION ALL
    SELECT 'unrecorded', NULL, NULL, NULL, NULL, 'the log begins at ' || log_complete_since
    LIMIT 1
) AS place
LEFT JOIN collectors ON collectors.holder = place.holder;

COMMENT ON VIEW deliveries IS
    'Where each token stands: pending, parked, leased or dead; or how it ended: sent, expired or cancelled; or unrecorded, if'
    ' that was before the log began. With the number of hand-overs, since when, by whom and why.';

DO $$
DECLARE
    home name := (
        SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE pg_class.oid = 'tokens'::regclass
    );
    signature text;
BEGIN
    FOREACH signature IN ARRAY ARRAY[
        'text_on_the_wire(text)',
        'cluster_identifier()',
        'mailroom_bind()',
        'mailroom_prospect(timestamptz, integer)',
        'return_lapsed_leases(timestamptz)',
        'mailroom_tend(bigint, text, uuid[], bigint, timestamptz)',
        'mailroom_tidy(bigint, bigint, timestamptz, integer)',
        'mailroom_retry(bigint[])',
        'mailroom_retry_all()',
        'settle_exceptions(uuid[], uuid[], bigint[], text[], bigint[], text[], integer, bigint, bigint)',
        'mailroom_exchange(bigint, uuid[], uuid[], uuid[], bigint[], text[], bigint[], text[], integer, bigint, uuid[], integer,'
        ' boolean, integer, integer, timestamptz, timestamptz, bigint, bigint)'
    ] LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', signature, home);
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', signature);
        IF signature LIKE 'mailroom\_%' OR signature LIKE 'return%' OR signature LIKE 'settle%' THEN
            EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = force_generic_plan', signature);
            EXECUTE format('ALTER FUNCTION %s SET enable_seqscan = off', signature);
            EXECUTE format('ALTER FUNCTION %s SET enable_bitmapscan = off', signature);
            EXECUTE format('ALTER FUNCTION %s SET enable_memoize = off', signature);
            EXECUTE format('ALTER FUNCTION %s SET jit = off', signature);
        END IF;
    END LOOP;

    -- Rows that are locked are passed over; a table that is locked is not waited for either.
    EXECUTE 'ALTER FUNCTION mailroom_tidy(bigint, bigint, timestamptz, integer) SET lock_timeout = 300';
END;
$$;

COMMIT;

-- Where a token stands: it waits, is on its way in a batch, or was given up.

CREATE TABLE mailroom.queue (
    token bigint NOT NULL,
    due_at timestamptz NOT NULL,
    put_off_at timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    failures smallint NOT NULL DEFAULT 0,
    deferrals smallint NOT NULL DEFAULT 0,
    priority smallint NOT NULL,
    secret bytea NOT NULL,
    code text,
    waits_since timestamptz,
    doubts smallint NOT NULL DEFAULT 0,

    CONSTRAINT queue_pkey PRIMARY KEY (token)
) WITH (
    -- Rows live for milliseconds. Vacuum comes after a number of dead ones, not after a share of a
    -- table that is mostly empty, and does not pause; it does not give the empty end of the file
    -- back either, for which it would lock registrations out.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 1000000,
    vacuum_truncate = false
);

CREATE INDEX queue_priority_due_at_idx ON mailroom.queue (priority, due_at);

COMMENT ON TABLE mailroom.queue IS
    'Tokens that wait to be sent. A row is inserted by the transaction that makes the token and '
    'deleted when it is claimed.';
COMMENT ON COLUMN mailroom.queue.token IS
    'The token. Not a foreign key, whose check would lock the token''s row; a row whose token is '
    'gone is cancelled when it is claimed.';
COMMENT ON COLUMN mailroom.queue.due_at IS
    'When it may be claimed: at once for a new token, later after a refusal. '
    'The oldest goes first.';
COMMENT ON COLUMN mailroom.queue.put_off_at IS
    'When it was put off until due_at: by a refusal, an outage, a subject who is not eligible, or '
    'a time that was asked for. Null for all others, '
    'which nothing but a clock that was set back keeps waiting.';
COMMENT ON COLUMN mailroom.queue.attempts IS 'How often it has been handed over.';
COMMENT ON COLUMN mailroom.queue.failures IS
    'How many of these count towards the most that there may be: those that ended or silenced the '
    'sender, and refusals where they are bounded.';
COMMENT ON COLUMN mailroom.queue.deferrals IS
    'How often in a row it was put off because its subject was not eligible, or its action cannot '
    'be signed. It is deferred while this is not 0.';
COMMENT ON COLUMN mailroom.queue.priority IS 'As in actions.';
COMMENT ON COLUMN mailroom.queue.secret IS
    '32 random bytes, which the signed link carries; whoever knows them has the token.';
COMMENT ON COLUMN mailroom.queue.code IS
    'Digits that the mail shows and the person types; null for none.';
COMMENT ON COLUMN mailroom.queue.waits_since IS
    'When it fell due first, if it came back since without a refusal of its own, because the '
    'sender was unavailable or failed, or if it is in doubt. Null: due_at.';
COMMENT ON COLUMN mailroom.queue.doubts IS
    'How many attempts ended in doubt: nobody knows whether the provider accepted the mail. While '
    'this is not 0, it may have been delivered, and is never ended as expired.';
COMMENT ON CONSTRAINT queue_pkey ON mailroom.queue IS
    'Serves coming back: a token waits once, however often it is put back.';
COMMENT ON INDEX mailroom.queue_priority_due_at_idx IS
    'Serves claiming: the oldest of each priority, from the time on before which nothing waits any '
    'more. What is due later lies behind, where no claim gets.';

-- Without a search path of its own, which would take as long as all the rest:
-- every name has its schema.
CREATE FUNCTION mailroom.trg_after_queue_insert() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    -- An idle collector holds this advisory lock exclusively, so the shared lock fails while a
    -- collector is idle or waits to be. A transaction that gets the shared lock keeps it until it
    -- ends, so a collector that becomes idle afterwards sees its row. While no collector is idle,
    -- no transaction notifies: notifications serialise commits in the whole server. The oid keeps
    -- apart the queues of databases.
    IF NOT pg_catalog.pg_try_advisory_xact_lock_shared(1835100524, TG_RELID::integer) THEN
        PERFORM pg_catalog.pg_notify('token_insert', '');
    END IF;

    RETURN NULL;
END;
$$;

COMMENT ON FUNCTION mailroom.trg_after_queue_insert() IS
    'Notifies token_insert if a collector is idle.';

CREATE TRIGGER after_queue_insert
    AFTER INSERT ON mailroom.queue
    FOR EACH STATEMENT
    EXECUTE FUNCTION mailroom.trg_after_queue_insert();

-- Its arrays have as many elements as there are tokens. A constraint that says so would be read and
-- compiled by every claim, which takes a tenth of a small one;
-- claim() makes them by one aggregation.
CREATE TABLE mailroom.leases (
    batch uuid NOT NULL,
    collector_id bigint NOT NULL,
    claimed_at timestamptz NOT NULL,
    renewed_at timestamptz NOT NULL,
    ends_at timestamptz NOT NULL,
    due_at timestamptz NOT NULL,
    tokens bigint[] NOT NULL,
    attempts integer[] NOT NULL,
    failures smallint[] NOT NULL,
    priorities smallint[] NOT NULL,
    secrets bytea[] NOT NULL,
    codes text[] NOT NULL,
    has_payloads boolean NOT NULL DEFAULT true,
    waits_since timestamptz[],
    doubts smallint[],

    CONSTRAINT leases_pkey PRIMARY KEY (batch)
) WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 1000000,
    vacuum_truncate = false
);

CREATE INDEX leases_ends_at_idx ON mailroom.leases (ends_at);

COMMENT ON TABLE mailroom.leases IS
    'Batches that were claimed and of which nothing is known yet. Whoever settles one deletes its '
    'row, and nobody can settle a batch whose row is gone.';
COMMENT ON COLUMN mailroom.leases.batch IS
    'The batch''s name, chosen at random by the collector before it claims.';
COMMENT ON COLUMN mailroom.leases.collector_id IS 'The collector, as in collectors.';
COMMENT ON COLUMN mailroom.leases.claimed_at IS 'When it was claimed.';
COMMENT ON COLUMN mailroom.leases.renewed_at IS 'When the collector said last that it has it.';
COMMENT ON COLUMN mailroom.leases.ends_at IS
    'When anybody may take it over. Put off as long as the collector lives.';
COMMENT ON COLUMN mailroom.leases.due_at IS
    'When the one of its tokens fell due that has waited longest. Tokens that come back unsent '
    'come back to this place in the queue, not to its end.';
COMMENT ON COLUMN mailroom.leases.tokens IS 'The tokens, in the order of the line.';
COMMENT ON COLUMN mailroom.leases.attempts IS
    'Of each token, the number of this delivery attempt, from 1.';
COMMENT ON COLUMN mailroom.leases.failures IS 'Of each token, as in queue.';
COMMENT ON COLUMN mailroom.leases.priorities IS 'Of each token, as in queue.';
COMMENT ON COLUMN mailroom.leases.secrets IS 'Of each token, as in queue.';
COMMENT ON COLUMN mailroom.leases.codes IS 'Of each token, as in queue.';
COMMENT ON COLUMN mailroom.leases.has_payloads IS
    'Whether any of its tokens has a payload, which is deleted when it is sent.';
COMMENT ON COLUMN mailroom.leases.waits_since IS
    'Of each token, as in queue, where it is not null there; else due_at of the queue.';
COMMENT ON COLUMN mailroom.leases.doubts IS 'Of each token, as in queue; null if no token has any.';
COMMENT ON INDEX mailroom.leases_ends_at_idx IS 'Serves taking over what has lapsed.';

CREATE TABLE mailroom.handed_over (
    token bigint NOT NULL,
    handed_over_at timestamptz NOT NULL,
    expires_at bigint NOT NULL,
    attempts integer NOT NULL,
    failures smallint NOT NULL,
    priority smallint NOT NULL,
    secret bytea,
    code text,
    doubts smallint NOT NULL DEFAULT 0,
    is_expired boolean NOT NULL DEFAULT false,

    CONSTRAINT handed_over_pkey PRIMARY KEY (token)
) WITH (
    -- As in queue: rows live for seconds.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 1000000,
    vacuum_truncate = false
);

CREATE INDEX handed_over_expires_at_idx ON mailroom.handed_over (is_expired, expires_at);

COMMENT ON TABLE mailroom.handed_over IS
    'Tokens whose mail a broker has stored, and of which no verdict has come yet. One that has '
    'expired so is listed by status() until it is pruned.';
COMMENT ON COLUMN mailroom.handed_over.token IS 'As in queue.';
COMMENT ON COLUMN mailroom.handed_over.handed_over_at IS 'When that was recorded.';
COMMENT ON COLUMN mailroom.handed_over.expires_at IS
    'As in issued_tokens, in seconds since the Unix epoch.';
COMMENT ON COLUMN mailroom.handed_over.attempts IS 'As in queue.';
COMMENT ON COLUMN mailroom.handed_over.failures IS 'As in queue.';
COMMENT ON COLUMN mailroom.handed_over.priority IS 'As in queue.';
COMMENT ON COLUMN mailroom.handed_over.secret IS
    'As in queue, so that a dead letter can be put back; null once the token has expired, or was '
    'used or cancelled.';
COMMENT ON COLUMN mailroom.handed_over.code IS 'As in queue; null with the secret.';
COMMENT ON COLUMN mailroom.handed_over.doubts IS 'As in queue.';
COMMENT ON COLUMN mailroom.handed_over.is_expired IS
    'Whether a collector has seen that it expired.';
COMMENT ON CONSTRAINT handed_over_pkey ON mailroom.handed_over IS
    'Serves verdicts: each takes away the row of its token.';
COMMENT ON INDEX mailroom.handed_over_expires_at_idx IS
    'Serves finding what has expired, and pruning what was found so.';

CREATE TABLE mailroom.dead_letters (
    token bigint NOT NULL,
    died_at timestamptz NOT NULL,
    expires_at bigint NOT NULL,
    attempts integer NOT NULL,
    failures smallint NOT NULL,
    priority smallint NOT NULL,
    secret bytea,
    code text,
    reason text NOT NULL,
    is_suppressed boolean NOT NULL DEFAULT false,
    doubts smallint NOT NULL DEFAULT 0,
    is_in_doubt boolean NOT NULL GENERATED ALWAYS AS (doubts > 0) STORED,

    CONSTRAINT dead_letters_pkey PRIMARY KEY (token)
);

CREATE INDEX dead_letters_expires_at_idx ON mailroom.dead_letters (expires_at)
    WHERE secret IS NOT NULL;

COMMENT ON TABLE mailroom.dead_letters IS
    'Tokens that were given up. Putting one back deletes its row, '
    'so that it goes out once however many do.';
COMMENT ON COLUMN mailroom.dead_letters.token IS 'As in queue.';
COMMENT ON COLUMN mailroom.dead_letters.died_at IS 'When it was given up.';
COMMENT ON COLUMN mailroom.dead_letters.expires_at IS
    'As in issued_tokens, in seconds since the Unix epoch.';
COMMENT ON COLUMN mailroom.dead_letters.attempts IS 'As in queue.';
COMMENT ON COLUMN mailroom.dead_letters.failures IS 'As in queue.';
COMMENT ON COLUMN mailroom.dead_letters.priority IS 'As in queue.';
COMMENT ON COLUMN mailroom.dead_letters.secret IS
    'As in queue; null once the token has expired, or was used or cancelled.';
COMMENT ON COLUMN mailroom.dead_letters.code IS 'As in queue; null with the secret.';
COMMENT ON COLUMN mailroom.dead_letters.reason IS
    'What the sender said last, why the row could not be written on a line, '
    'or why its address is suppressed.';
COMMENT ON COLUMN mailroom.dead_letters.is_suppressed IS
    'Whether it was given up because its address is suppressed: an expected end, of which no '
    'operator is alarmed.';
COMMENT ON COLUMN mailroom.dead_letters.doubts IS
    'As in queue; kept when it is put back, so that one more doubt makes it a dead letter again.';
COMMENT ON COLUMN mailroom.dead_letters.is_in_doubt IS
    'Whether it may have been delivered. Putting all dead letters back passes it over.';
COMMENT ON INDEX mailroom.dead_letters_expires_at_idx IS
    'Serves erasing the secrets of what has expired.';

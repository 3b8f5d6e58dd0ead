-- What an installation keeps about itself and its collectors.

CREATE TABLE mailroom.installation (
    is_only boolean NOT NULL DEFAULT true,
    log_complete_since timestamptz NOT NULL,
    system_identifier bigint,
    address_key bytea NOT NULL DEFAULT sha256(uuid_send(gen_random_uuid()) ||
        uuid_send(gen_random_uuid())),
    token_format text NOT NULL DEFAULT 'v1',
    name text,

    CONSTRAINT installation_pkey PRIMARY KEY (is_only),
    CONSTRAINT installation_one_row CHECK (is_only),
    -- v3 has keys of another kind, so that its collectors are told of it with their keys.
    CONSTRAINT installation_token_format CHECK (token_format IN ('v1', 'v2')),
    CONSTRAINT installation_name CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$')
);

INSERT INTO mailroom.installation (log_complete_since, system_identifier)
VALUES (clock_timestamp(), mailroom.cluster_identifier());

COMMENT ON TABLE mailroom.installation IS
    'One row: what this installation of Mailroom keeps about itself.';
COMMENT ON COLUMN mailroom.installation.is_only IS 'True; its key allows no second row.';
COMMENT ON COLUMN mailroom.installation.log_complete_since IS
    'From then on every delivery attempt is in delivery_log; '
    'what was done before did not exist or was pruned.';
COMMENT ON COLUMN mailroom.installation.system_identifier IS
    'The cluster that the queue is sent from. In a dump that was restored into another one it is '
    'another''s, and nothing is sent.';
COMMENT ON COLUMN mailroom.installation.address_key IS
    'Key of the hashes of addresses in receipts. '
    'Whoever has it can try which addresses they are of.';
COMMENT ON COLUMN mailroom.installation.token_format IS
    'Format that collectors sign unless they are told another one. The program records v2 where '
    'it creates an installation without accounts, in the same transaction; v1 is what existing '
    'verifiers expect.';
COMMENT ON COLUMN mailroom.installation.name IS
    'Which installation this is, as bind() was told. Collectors that are started must name the '
    'same one: a physical copy has the identifier of its cluster. Null: any collector may collect.';

CREATE TABLE mailroom.collectors (
    collector_id bigint NOT NULL,
    name text NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    state text,
    state_since timestamptz NOT NULL,
    state_reason text,
    token_format text,
    installation text,
    version text,
    settings json,
    counts json,

    CONSTRAINT collectors_pkey PRIMARY KEY (collector_id)
) WITH (fillfactor = 50);

COMMENT ON TABLE mailroom.collectors IS
    'Runs: processes that collect or have collected, with what they did.';
COMMENT ON COLUMN mailroom.collectors.collector_id IS
    'Chosen at random by the process when it starts.';
COMMENT ON COLUMN mailroom.collectors.name IS 'Host and process id, as the process knows them.';
COMMENT ON COLUMN mailroom.collectors.started_at IS 'When it came first.';
COMMENT ON COLUMN mailroom.collectors.seen_at IS
    'When it said last that it lives, to within half a minute.';
COMMENT ON COLUMN mailroom.collectors.state IS
    'Of its sender: new (has had nothing to answer), ready, unanswered (has not answered yet what '
    'it was given), failing (ends or does not start), open (is unavailable) or half_open (is being '
    'tried again); or ended, if the collector ended in order; or resting, if it has no session '
    'while nothing is due. Null without a sender. One that gives no sign of life, and has neither '
    'ended nor rests, was killed.';
COMMENT ON COLUMN mailroom.collectors.state_since IS
    'Since when; of open, half_open and failing, since the outage began.';
COMMENT ON COLUMN mailroom.collectors.state_reason IS
    'Why the sender is not available, as the collector''s log says it; null if it is. Of a run '
    'that ended, why it did.';
COMMENT ON COLUMN mailroom.collectors.token_format IS
    'Format of the tokens that it signs; null if it has not said.';
COMMENT ON COLUMN mailroom.collectors.installation IS
    'Name of the installation that it was told to collect for; null if none.';
COMMENT ON COLUMN mailroom.collectors.version IS 'Version of the program; null if it has not said.';
COMMENT ON COLUMN mailroom.collectors.settings IS
    'Its settings that are no secret, by the names of the log, as text.';
COMMENT ON COLUMN mailroom.collectors.counts IS
    'How many tokens it claimed, and what became of them, to within half a minute.';

-- A collector gives three signs of life in that time.
CREATE FUNCTION mailroom.is_seen(seen_at timestamptz, epoch timestamptz) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
RETURN seen_at > epoch - interval '90 seconds';

COMMENT ON FUNCTION mailroom.is_seen(timestamptz, timestamptz) IS
    'Whether a sign of life is so recent that its collector counts as alive.';

-- It says so before it ends its sessions, and comes back within a day.
CREATE FUNCTION mailroom.rests(state text, seen_at timestamptz, epoch timestamptz) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
RETURN coalesce(state = 'resting', false) AND seen_at > epoch - interval '25 hours';

COMMENT ON FUNCTION mailroom.rests(text, timestamptz, timestamptz) IS
    'Whether a collector has said that it rests, and is expected back.';

CREATE TABLE mailroom.rate_lock ();

COMMENT ON TABLE mailroom.rate_lock IS
    'Has no rows: it is locked by spend(). An advisory lock in its place could be held by any '
    'role of the database.';

CREATE TABLE mailroom.prune_lock ();

COMMENT ON TABLE mailroom.prune_lock IS
    'Has no rows: whoever prunes locks it, for the same reason as rate_lock.';

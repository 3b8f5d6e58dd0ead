-- Feature: a schema of Mailroom's own, for mails to the people of any table. An application
-- enqueues a mail in its own transaction; nothing in this schema refers to a table outside of it.
--
-- Queue in, log out: where a token stands is where its row is, in one of `queue`, `leases` and
-- `dead_letters`, or in none of them when it is done. The secret is in that row and nowhere else,
-- so that it is gone when the mail is sent. What happened is appended to `delivery_log`.
--
-- Locks: new tables only.

BEGIN;

SET LOCAL client_min_messages = warning;

-- Whoever may not create schemas can be given one; IF NOT EXISTS asks for the right all the same.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'mailroom') THEN
        CREATE SCHEMA mailroom;
    END IF;
END;
$$;

-- What is in it has rights of its own.
GRANT USAGE ON SCHEMA mailroom TO PUBLIC;

COMMENT ON SCHEMA mailroom IS
    'Mailroom: mails with one-time links, from their request to their hand-over to a sender.';

CREATE TYPE mailroom.outcome AS ENUM ('sent', 'error', 'unanswered', 'lapsed', 'dead', 'expired',
    'cancelled', 'in_doubt');

COMMENT ON TYPE mailroom.outcome IS
    'How a delivery attempt ended: sent; error (refused for now); unanswered (no verdict, or the '
    'sender was unavailable); lapsed (the lease ended); in_doubt (nobody knows whether the '
    'provider accepted it); dead (refused for ever, too many failures or doubts, or no line can '
    'carry it). Or why there was none: expired; cancelled (used, cancelled or deleted before); '
    'dead (its address is suppressed, or it expired and may have been delivered).';

CREATE TABLE mailroom.actions (
    number smallint NOT NULL,
    name text NOT NULL,
    path text,
    code_digits smallint NOT NULL DEFAULT 0,
    lifetime interval NOT NULL DEFAULT '15 minutes',
    cooldown interval NOT NULL DEFAULT '60 seconds',
    priority smallint NOT NULL DEFAULT 1,
    proves_address boolean NOT NULL DEFAULT false,
    eligibility text,
    is_retired boolean NOT NULL DEFAULT false,

    CONSTRAINT actions_pkey PRIMARY KEY (number),
    CONSTRAINT actions_name_key UNIQUE (name),
    CONSTRAINT actions_path_key UNIQUE (path),
    CONSTRAINT actions_number CHECK (number BETWEEN 1 AND 127),
    CONSTRAINT actions_name CHECK (
        name ~ '^[a-z][a-z0-9_]{0,31}$'
        AND (number <= 2 OR name NOT IN ('activation', 'password_recovery'))
    ),
    CONSTRAINT actions_path CHECK (
        path ~ '^(/[A-Za-z0-9._~-]+)+$' AND path !~ '/[.][.]?(/|$)' AND length(path) <= 255
    ),
    CONSTRAINT actions_code CHECK (code_digits IN (0, 5, 6, 7, 8)
        AND (code_digits = 0 OR path IS NOT NULL)),
    CONSTRAINT actions_lifetime CHECK (lifetime BETWEEN '1 minute' AND '366 days'),
    CONSTRAINT actions_cooldown CHECK (cooldown BETWEEN '0 seconds' AND '1 day'),
    CONSTRAINT actions_priority CHECK (priority IN (0, 1))
);

COMMENT ON TABLE mailroom.actions IS
    'What a mail is for. Add a row for an action of your own; numbers 1 and 2 are Mailroom''s.';
COMMENT ON COLUMN mailroom.actions.number IS
    'What a token of v2 or v3 carries; the same wherever its tokens are verified.';
COMMENT ON COLUMN mailroom.actions.name IS
    'What enqueue() and redeem() call it, and the sender is told.';
COMMENT ON COLUMN mailroom.actions.path IS 'Path of the link; null for a mail without a link.';
COMMENT ON COLUMN mailroom.actions.code_digits IS
    'Digits of the code that is typed beside the link, 5 to 8; 0 for none.';
COMMENT ON COLUMN mailroom.actions.lifetime IS 'How long its tokens can be used.';
COMMENT ON COLUMN mailroom.actions.cooldown IS
    'Shortest time between two tokens that are requested for one account.';
COMMENT ON COLUMN mailroom.actions.priority IS
    '0 for what somebody waits for, 1 for the rest; 1 gets every seventh place at least.';
COMMENT ON COLUMN mailroom.actions.proves_address IS
    'Whether using the link proves that the subject has its present address. Then a token ends '
    'when the address changes.';
COMMENT ON COLUMN mailroom.actions.eligibility IS
    'Who may get and use its mails: a SECURITY DEFINER function of (subject_ids text[], '
    'is_redemption boolean) that returns rows (subject_id text, email text, name text) for those '
    'who may, with what they are called now. For a redemption it locks them. Null: everybody may. '
    'Its name, since pg_upgrade refuses columns with its oid.';
COMMENT ON COLUMN mailroom.actions.is_retired IS
    'Whether no more tokens of it are made; those that exist stay good.';
COMMENT ON CONSTRAINT actions_name_key ON mailroom.actions IS 'Serves enqueue() and redeem().';
COMMENT ON CONSTRAINT actions_path_key ON mailroom.actions IS 'A link is for one thing.';

INSERT INTO mailroom.actions (number, name, path, code_digits, lifetime, priority, proves_address)
VALUES
    (1, 'activate', '/activate', 0, '15 minutes', 1, true),
    (2, 'recover', '/recover', 5, '15 minutes', 0, true),
    (3, 'change_email', '/change-email', 0, '1 hour', 0, false),
    (4, 'invite', '/invite', 0, '7 days', 1, false),
    (5, 'sign_in', '/sign-in', 6, '15 minutes', 0, true),
    (6, 'notice', NULL, 0, '1 day', 1, false);

CREATE TABLE mailroom.issued_tokens (
    id bigint GENERATED BY DEFAULT AS IDENTITY,
    action smallint NOT NULL,
    subject_id text,
    recipient_email text,
    recipient_name text,
    language text,
    consumed_id bytea NOT NULL,
    code_hash bytea,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    consumed_at bigint,
    cancelled_at bigint,
    binding bytea,
    has_payload boolean NOT NULL DEFAULT false,

    CONSTRAINT issued_tokens_pkey PRIMARY KEY (id),
    CONSTRAINT issued_tokens_consumed_id_key UNIQUE (consumed_id)
) WITH (
    fillfactor = 90,
    -- A fifth of what a retention of days leaves would be hundreds of millions of dead rows.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.05
);

CREATE INDEX issued_tokens_subject_id_idx ON mailroom.issued_tokens (subject_id);

COMMENT ON TABLE mailroom.issued_tokens IS
    'One-time tokens, without their secrets: who gets which, and what became of it.';
COMMENT ON COLUMN mailroom.issued_tokens.action IS
    'Number of the action that it is for. Not a foreign key, whose check takes long; a trigger of '
    'actions keeps those that have tokens.';
COMMENT ON COLUMN mailroom.issued_tokens.subject_id IS
    'Whose it is in the application''s own table, as text; null if nobody''s.';
COMMENT ON COLUMN mailroom.issued_tokens.recipient_email IS
    'Address that the mail goes to, as it was when the token was made. Null only where the account '
    'was made after its token.';
COMMENT ON COLUMN mailroom.issued_tokens.recipient_name IS 'What the mail calls the recipient.';
COMMENT ON COLUMN mailroom.issued_tokens.language IS
    'Language of the mail, as in BCP 47; null for the sender''s own choice.';
COMMENT ON COLUMN mailroom.issued_tokens.consumed_id IS
    'The first 16 bytes of SHA-256("mailroom/consumed", a zero byte, secret); '
    'tells nothing about the secret.';
COMMENT ON COLUMN mailroom.issued_tokens.code_hash IS
    'SHA-256("mailroom/code", a zero byte, secret, code), which nobody can try without the link; '
    'null where there is no code.';
COMMENT ON COLUMN mailroom.issued_tokens.created_at IS 'Seconds since the Unix epoch.';
COMMENT ON COLUMN mailroom.issued_tokens.expires_at IS
    'First second at which it is no longer valid, in seconds since the Unix epoch.';
COMMENT ON COLUMN mailroom.issued_tokens.consumed_at IS
    'When it was used, in seconds since the Unix epoch; null until then.';
COMMENT ON COLUMN mailroom.issued_tokens.cancelled_at IS
    'When it ended without being used, in seconds since the Unix epoch; null if it did not.';
COMMENT ON COLUMN mailroom.issued_tokens.binding IS
    'The browser that the link is for: the first 16 bytes of SHA-256("mailroom/browser", a zero '
    'byte, the nonce of its cookie). Null: any.';
COMMENT ON COLUMN mailroom.issued_tokens.has_payload IS
    'Whether it was made with a payload, so that claims look for one.';
COMMENT ON CONSTRAINT issued_tokens_consumed_id_key ON mailroom.issued_tokens IS
    'Serves redeeming, and finding the token that a consumed id in a log or a store belongs to.';
COMMENT ON INDEX mailroom.issued_tokens_subject_id_idx IS 'Serves cancelling what a subject has.';

CREATE TABLE mailroom.payloads (
    token bigint NOT NULL,
    payload jsonb NOT NULL,

    CONSTRAINT payloads_pkey PRIMARY KEY (token)
);

COMMENT ON TABLE mailroom.payloads IS
    'What the application says for the mail''s template, '
    'until the mail is sent or has become void.';
COMMENT ON COLUMN mailroom.payloads.token IS 'As in queue.';
COMMENT ON COLUMN mailroom.payloads.payload IS 'JSON, as payload_fault() allows it.';

CREATE TABLE mailroom.idempotency_keys (
    action smallint NOT NULL,
    key text NOT NULL,
    token bigint NOT NULL,
    digest bytea NOT NULL,
    expires_at bigint NOT NULL,
    subject_id text,

    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (action, key)
);

CREATE INDEX idempotency_keys_expires_at_idx ON mailroom.idempotency_keys (expires_at);
CREATE INDEX idempotency_keys_subject_id_idx ON mailroom.idempotency_keys (subject_id)
    WHERE subject_id IS NOT NULL;

COMMENT ON TABLE mailroom.idempotency_keys IS
    'Keys that enqueue() was called with, until 30 days after their tokens'' expiry, whatever '
    'becomes of the tokens.';
COMMENT ON COLUMN mailroom.idempotency_keys.action IS
    'Number of the action: each has its own keys.';
COMMENT ON COLUMN mailroom.idempotency_keys.key IS 'Of the application''s choice, 1 to 255 bytes.';
COMMENT ON COLUMN mailroom.idempotency_keys.token IS
    'The token that the first call made; it may have been deleted since.';
COMMENT ON COLUMN mailroom.idempotency_keys.digest IS 'SHA-256 of the other arguments.';
COMMENT ON COLUMN mailroom.idempotency_keys.expires_at IS
    'When it is forgotten, in seconds since the Unix epoch.';
COMMENT ON COLUMN mailroom.idempotency_keys.subject_id IS
    'As in issued_tokens, whose row is pruned earlier.';
COMMENT ON INDEX mailroom.idempotency_keys_expires_at_idx IS 'Serves pruning.';
COMMENT ON INDEX mailroom.idempotency_keys_subject_id_idx IS
    'Serves forget() and export_subject().';

CREATE TABLE mailroom.code_attempts (
    token bigint NOT NULL,
    ordinal smallint NOT NULL,
    attempted_at bigint NOT NULL,
    is_other_browser boolean NOT NULL DEFAULT false,

    CONSTRAINT code_attempts_pkey PRIMARY KEY (token, is_other_browser, ordinal),
    CONSTRAINT code_attempts_token_fkey FOREIGN KEY (token) REFERENCES mailroom.issued_tokens (id)
        ON DELETE CASCADE,
    CONSTRAINT code_attempts_five_at_most CHECK (ordinal BETWEEN 1 AND 5)
);

COMMENT ON TABLE mailroom.code_attempts IS
    'Tries of the codes of tokens, right and wrong ones; rows are never changed, '
    'and go with their token.';
COMMENT ON COLUMN mailroom.code_attempts.token IS 'Token whose code was tried.';
COMMENT ON COLUMN mailroom.code_attempts.ordinal IS
    '1 for the first try of a token''s code; at most 5.';
COMMENT ON COLUMN mailroom.code_attempts.attempted_at IS 'Seconds since the Unix epoch.';
COMMENT ON COLUMN mailroom.code_attempts.is_other_browser IS
    'Whether it came from a browser that the link is not bound to. Such tries have numbers of '
    'their own, so that whoever has only the link takes none of those away '
    'that the bound browser has.';
COMMENT ON CONSTRAINT code_attempts_pkey ON mailroom.code_attempts IS
    'Serves redeeming: how often the code of a token was tried; no two tries have the same number.';

CREATE TABLE mailroom.code_failures (
    subject text NOT NULL,
    failures integer NOT NULL,
    rests_until bigint NOT NULL,
    is_other_browser boolean NOT NULL DEFAULT false,

    CONSTRAINT code_failures_pkey PRIMARY KEY (subject, is_other_browser)
);

CREATE INDEX code_failures_rests_until_idx ON mailroom.code_failures (rests_until);

COMMENT ON TABLE mailroom.code_failures IS
    'How many wrong codes were entered in a row for a subject, over all of its tokens (NIST SP '
    '800-63B allows a hundred). A right code deletes the row; deleting tokens does not.';
COMMENT ON COLUMN mailroom.code_failures.subject IS
    'Subject id; the normal form of the address where a token has none.';
COMMENT ON COLUMN mailroom.code_failures.failures IS 'Wrong codes since the last right one.';
COMMENT ON COLUMN mailroom.code_failures.rests_until IS
    'Until then redeem() accepts no code for the subject and request() makes no token for it, of '
    'any action; in seconds since the Unix epoch. '
    'Before the hundredth wrong code the time of the last one.';
COMMENT ON INDEX mailroom.code_failures_rests_until_idx IS 'Serves pruning.';
COMMENT ON COLUMN mailroom.code_failures.is_other_browser IS
    'As in code_attempts: wrong codes entered in other browsers block only codes entered '
    'in other browsers.';

CREATE TABLE mailroom.browser_codes (
    binding bytea NOT NULL,
    code text NOT NULL,
    tries smallint NOT NULL DEFAULT 0,
    expires_at bigint NOT NULL,

    CONSTRAINT browser_codes_pkey PRIMARY KEY (binding),
    CONSTRAINT browser_codes_binding CHECK (octet_length(binding) = 16),
    CONSTRAINT browser_codes_five_at_most CHECK (tries BETWEEN 0 AND 5)
);

CREATE INDEX browser_codes_expires_at_idx ON mailroom.browser_codes (expires_at);

COMMENT ON TABLE mailroom.browser_codes IS
    'Digits that a browser shows, for using the links that are bound to it in another one. They '
    'are in no mail and in no token, and worth nothing without the link.';
COMMENT ON COLUMN mailroom.browser_codes.binding IS
    'The browser, as in issued_tokens; it need not have a token.';
COMMENT ON COLUMN mailroom.browser_codes.code IS 'Five digits.';
COMMENT ON COLUMN mailroom.browser_codes.tries IS
    'How often a code was entered in place of these digits, right or wrong; at most 5.';
COMMENT ON COLUMN mailroom.browser_codes.expires_at IS
    'A day after they were shown last, in seconds since the Unix epoch.';
COMMENT ON INDEX mailroom.browser_codes_expires_at_idx IS 'Serves pruning.';

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

-- Its arrays have as many elements as there are tokens. A constraint that says so would be read and
-- compiled by every claim, which takes a tenth of a small one;
-- claim() makes them by one aggregation.
CREATE TABLE mailroom.leases (
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
COMMENT ON COLUMN mailroom.leases.holder IS 'The collector, as in collectors.';
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

CREATE TABLE mailroom.delivery_log (
    id bigint GENERATED BY DEFAULT AS IDENTITY,
    tokens bigint[] NOT NULL,
    happened_at timestamptz NOT NULL,
    holder bigint,
    batch uuid,
    attempt integer NOT NULL,
    outcome mailroom.outcome NOT NULL,
    reason text,

    CONSTRAINT delivery_log_pkey PRIMARY KEY (id),
    CONSTRAINT delivery_log_tokens CHECK (pg_catalog.cardinality(tokens) > 0)
) WITH (
    -- Only appended to and pruned. Inserts alone make it worth a visit early, because they are
    -- frozen then in small steps.
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.1
);

CREATE INDEX delivery_log_tokens_idx ON mailroom.delivery_log ((tokens[1] / 256));
CREATE INDEX delivery_log_refused_idx ON mailroom.delivery_log ((tokens[1]))
    WHERE outcome IN ('error', 'dead');
CREATE INDEX delivery_log_happened_at_idx ON mailroom.delivery_log USING brin (happened_at);
CREATE INDEX delivery_log_expired_idx ON mailroom.delivery_log (happened_at)
    WHERE outcome = 'expired';

CREATE INDEX delivery_log_in_doubt_idx ON mailroom.delivery_log (happened_at)
    WHERE outcome = 'in_doubt';

COMMENT ON TABLE mailroom.delivery_log IS
    'What became of delivery attempts: rows are appended and pruned, and never changed but by '
    'forget(). Tokens of a batch that were sent at the same attempt share a row if their ids '
    'divided by 256 are the same; the view delivery_attempts has one row a token.';
COMMENT ON COLUMN mailroom.delivery_log.id IS
    'Says nothing: by it a subscriber of logical replication finds a row that is pruned.';
COMMENT ON COLUMN mailroom.delivery_log.tokens IS 'The tokens, which may have been deleted since.';
COMMENT ON COLUMN mailroom.delivery_log.happened_at IS 'When that was known.';
COMMENT ON COLUMN mailroom.delivery_log.holder IS
    'The collector that had the batch or, where there was none, that came to the token; null where '
    'the application ended it.';
COMMENT ON COLUMN mailroom.delivery_log.batch IS
    'The batch; null for a token that was not handed over.';
COMMENT ON COLUMN mailroom.delivery_log.attempt IS
    'Which attempt of each token, from 1; where there was none, how many there were before.';
COMMENT ON COLUMN mailroom.delivery_log.outcome IS 'How it ended.';
COMMENT ON COLUMN mailroom.delivery_log.reason IS
    'For error, in_doubt and dead why: what the sender said, why no line can carry the row, or '
    'that its address is suppressed. For unanswered why the sender was unavailable, or why it has '
    'not tried the mail.';
COMMENT ON INDEX mailroom.delivery_log_tokens_idx IS
    'Serves history(): a row for each sent token, and an entry of it in an index, would take as '
    'long as the rest of a settlement.';
COMMENT ON INDEX mailroom.delivery_log_refused_idx IS
    'Serves settling: how often a token was refused, and whether it was given up.';
COMMENT ON INDEX mailroom.delivery_log_happened_at_idx IS
    'Serves counting what was sent lately. Pruning reads the log block by block.';
COMMENT ON INDEX mailroom.delivery_log_in_doubt_idx IS
    'Serves status(): how many attempts ended in doubt lately, without reading the log.';
COMMENT ON INDEX mailroom.delivery_log_expired_idx IS
    'Serves status(): how many tokens expired before they were sent, without reading the log.';

-- forget() deletes those of a subject's tokens by their ids and, since tokens are pruned earlier,
-- those of its addresses by address_hash().
CREATE TABLE mailroom.receipts (
    id bigint GENERATED BY DEFAULT AS IDENTITY,
    token bigint NOT NULL,
    attempt integer NOT NULL,
    accepted_at timestamptz NOT NULL,
    action smallint,
    provider text NOT NULL,
    message_id text,
    answer text NOT NULL,
    address_hash bytea,

    CONSTRAINT receipts_pkey PRIMARY KEY (id)
) WITH (
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.1
);

CREATE INDEX receipts_token_idx ON mailroom.receipts (token);
CREATE INDEX receipts_address_hash_idx ON mailroom.receipts (address_hash);

COMMENT ON TABLE mailroom.receipts IS
    'What providers said of the mails that they accepted, where the sender tells: rows are '
    'appended and pruned with the log, never changed.';
COMMENT ON COLUMN mailroom.receipts.id IS 'As in delivery_log.';
COMMENT ON COLUMN mailroom.receipts.token IS 'The token, which may have been deleted since.';
COMMENT ON COLUMN mailroom.receipts.attempt IS 'Which attempt of the token was accepted.';
COMMENT ON COLUMN mailroom.receipts.accepted_at IS 'When the collector recorded it.';
COMMENT ON COLUMN mailroom.receipts.action IS 'As in issued_tokens.';
COMMENT ON COLUMN mailroom.receipts.provider IS 'Kind of the provider, such as smtp.';
COMMENT ON COLUMN mailroom.receipts.message_id IS
    'The provider''s own id of the mail, if the sender knows it.';
COMMENT ON COLUMN mailroom.receipts.answer IS
    'What the provider answered, at most 200 characters, without addresses and secrets.';
COMMENT ON COLUMN mailroom.receipts.address_hash IS
    'The address, as address_hash() has it: it can be looked for and not be read. Null if the '
    'token had none of its own.';
COMMENT ON INDEX mailroom.receipts_token_idx IS 'Serves trace(), by token.';
COMMENT ON INDEX mailroom.receipts_address_hash_idx IS
    'Serves trace(), by address, also when the token is pruned.';

CREATE TABLE mailroom.suppressions (
    address text NOT NULL,
    reason text NOT NULL,
    provider text,
    detail text,
    suppressed_at timestamptz NOT NULL,

    CONSTRAINT suppressions_pkey PRIMARY KEY (address),
    CONSTRAINT suppressions_reason CHECK (reason IN ('bounce', 'complaint', 'manual')),
    CONSTRAINT suppressions_provider CHECK (provider ~ '^[a-z][a-z0-9_]{0,31}$'),
    CONSTRAINT suppressions_detail CHECK (octet_length(detail) <= 1000)
);

COMMENT ON TABLE mailroom.suppressions IS
    'Addresses that get no mails, until somebody lifts it. '
    'A token for one is given up when it is claimed.';
COMMENT ON COLUMN mailroom.suppressions.address IS 'As normal_address() has it.';
COMMENT ON COLUMN mailroom.suppressions.reason IS
    'bounce: a provider or mail server says that it cannot be reached for good; complaint: a mail '
    'was reported as unwanted; manual.';
COMMENT ON COLUMN mailroom.suppressions.provider IS 'Who said so; null for manual.';
COMMENT ON COLUMN mailroom.suppressions.detail IS
    'What was said, without addresses and secrets; at most 200 characters.';
COMMENT ON COLUMN mailroom.suppressions.suppressed_at IS
    'Since when; later notifications change nothing.';
COMMENT ON CONSTRAINT suppressions_pkey ON mailroom.suppressions IS
    'Serves claiming: a look-up for each token.';

CREATE TABLE mailroom.collectors (
    holder bigint NOT NULL,
    name text NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    state text,
    state_since timestamptz NOT NULL,
    state_reason text,
    token_format text,
    installation text,

    CONSTRAINT collectors_pkey PRIMARY KEY (holder)
) WITH (fillfactor = 50);

COMMENT ON TABLE mailroom.collectors IS
    'Processes that collect or have collected; says who a holder is.';
COMMENT ON COLUMN mailroom.collectors.holder IS 'Chosen at random by the process when it starts.';
COMMENT ON COLUMN mailroom.collectors.name IS 'Host and process id, as the process knows them.';
COMMENT ON COLUMN mailroom.collectors.started_at IS 'When it came first.';
COMMENT ON COLUMN mailroom.collectors.seen_at IS
    'When it said last that it lives, to within half a minute.';
COMMENT ON COLUMN mailroom.collectors.state IS
    'Of its sender: new (has had nothing to answer), ready, unanswered (has not answered yet what '
    'it was given), failing (ends or does not start), open (is unavailable) or half_open (is being '
    'tried again); or ended, if the collector ended in order. Null without a sender.';
COMMENT ON COLUMN mailroom.collectors.state_since IS
    'Since when; of open, half_open and failing, since the outage began.';
COMMENT ON COLUMN mailroom.collectors.state_reason IS
    'Why the sender is not available, as the collector''s log says it; null if it is.';
COMMENT ON COLUMN mailroom.collectors.token_format IS
    'Format of the tokens that it signs; null if it has not said.';
COMMENT ON COLUMN mailroom.collectors.installation IS
    'Name of the installation that it was told to collect for; null if none.';

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

REVOKE ALL ON FUNCTION mailroom.cluster_identifier() FROM PUBLIC;

COMMENT ON FUNCTION mailroom.cluster_identifier() IS
    'What tells this cluster from others, but not from its physical copies; '
    'null if its owner may not know.';

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

CREATE TABLE mailroom.rate_lock ();

COMMENT ON TABLE mailroom.rate_lock IS
    'Has no rows: it is locked by reserve(). An advisory lock in its place could be held by any '
    'role of the database.';

CREATE TABLE mailroom.prune_lock ();

COMMENT ON TABLE mailroom.prune_lock IS
    'Has no rows: whoever prunes locks it, for the same reason as rate_lock.';

-- The only clock of the queue. A function, so that a test can turn it: collectors have no say in
-- what time it is.
CREATE FUNCTION mailroom.clock() RETURNS timestamptz
LANGUAGE sql VOLATILE
RETURN clock_timestamp();

COMMENT ON FUNCTION mailroom.clock() IS 'What time it is for the queue.';

-- Called at the end of each step, whose objects are those that its transaction has made. The
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
            WHERE nspname = 'mailroom' AND pg_proc.xmin = pg_current_xact_id()::xid
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
                        AND pg_type.xmin = pg_current_xact_id()::xid)
                    OR relkind = 'S'
                    AND EXISTS (
                        SELECT FROM pg_attribute
                        WHERE attrelid = pg_class.oid AND attnum = 1
                            AND pg_attribute.xmin = pg_current_xact_id()::xid
                    )
                )
        ) AS made (kind, name, owner, acl)
        CROSS JOIN LATERAL aclexplode(made.acl)
        -- What everybody may call has no rights of its owner, or is revoked beside it.
        WHERE grantee <> made.owner AND (grantee <> 0 OR made.kind <> 'ROUTINE')
    LOOP
        EXECUTE revocation;
    END LOOP;
END;
$$;

REVOKE ALL ON FUNCTION mailroom.revoke_default_privileges() FROM PUBLIC;

COMMENT ON FUNCTION mailroom.revoke_default_privileges() IS
    'Takes back what ALTER DEFAULT PRIVILEGES gives others of what this transaction has made, as '
    'on hosted servers.';

SELECT mailroom.revoke_default_privileges();

COMMIT;

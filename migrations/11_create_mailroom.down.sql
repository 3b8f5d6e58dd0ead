-- Forgets whom Mailroom wrote to, and what was delivered when, by whom and why not.

BEGIN;

DROP TABLE
    mailroom.installation, mailroom.collectors, mailroom.delivery_attempts, mailroom.dead_letters, mailroom.leases, mailroom.queue,
    mailroom.code_failures, mailroom.code_attempts, mailroom.idempotency_keys, mailroom.payloads, mailroom.issued_tokens, mailroom.actions;

DROP FUNCTION mailroom.clock();
DROP FUNCTION mailroom.cluster_identifier();
DROP TYPE mailroom.outcome;

-- Where it holds the record of migrations it stays.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = 'mailroom'::regnamespace) THEN
        DROP SCHEMA mailroom;
    END IF;
END;
$$;

COMMIT;

-- Forgets whom Mailroom wrote to, and what was delivered when, by whom and why not.

BEGIN;

DROP TABLE
    mailroom.prune_lock, mailroom.rate_lock, mailroom.installation, mailroom.collectors,
        mailroom.suppressions, mailroom.receipts, mailroom.delivery_log, mailroom.dead_letters,
        mailroom.leases, mailroom.queue,
    mailroom.browser_codes, mailroom.code_failures, mailroom.code_attempts,
        mailroom.idempotency_keys, mailroom.payloads, mailroom.issued_tokens, mailroom.actions;

DROP FUNCTION mailroom.revoke_default_privileges();
DROP FUNCTION mailroom.clock();
DROP FUNCTION mailroom.cluster_identifier();
DROP TYPE mailroom.outcome;

-- It stays where it holds the record of migrations, or something of an application's.
DO $$
BEGIN
    DROP SCHEMA mailroom;
EXCEPTION WHEN dependent_objects_still_exist THEN
    NULL;
END;
$$;

COMMIT;

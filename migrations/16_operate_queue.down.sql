-- Nothing shows any more where a token stands, and nothing is pruned.

BEGIN;

DROP FUNCTION mailroom.export_subject(text, text);
DROP FUNCTION mailroom.forget(text, text);
DROP FUNCTION mailroom.receipts_of(bigint[], text);
DROP FUNCTION mailroom.tokens_of(text, text);
DROP FUNCTION mailroom.prune_tokens(timestamptz, bigint, integer);
DROP SEQUENCE mailroom.longest_limit;
DROP FUNCTION mailroom.prune_dead_letters(timestamptz, integer);
DROP FUNCTION mailroom.prune_attempts(timestamptz, bigint, integer);
DROP FUNCTION mailroom.begin_step(timestamptz);
DROP FUNCTION mailroom.status();
DROP FUNCTION mailroom.present_collectors(timestamptz);
DROP FUNCTION mailroom.trace(bigint[], text);
DROP FUNCTION mailroom.trace_token(bigint, timestamptz);
DROP VIEW mailroom.waiting;
DROP VIEW mailroom.deliveries;
DROP FUNCTION mailroom.history(bigint);
DROP VIEW mailroom.delivery_attempts;
DROP VIEW mailroom.suppressed_addresses;
DROP FUNCTION mailroom.lift_suppression(text);
DROP FUNCTION mailroom.suppress(text, text, text, text);
DROP FUNCTION mailroom.discard_all(interval);
DROP FUNCTION mailroom.discard(bigint[]);
DROP FUNCTION mailroom.retry_all(boolean);
DROP FUNCTION mailroom.retry(bigint[]);
DROP FUNCTION mailroom.renew(mailroom.issued_tokens);

COMMIT;

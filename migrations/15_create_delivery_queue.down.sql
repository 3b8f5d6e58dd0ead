-- Forgets what was delivered when, by whom and why not. What waits is left to the cursor by the way down of migration 17.

BEGIN;

DROP VIEW deliveries;

DROP FUNCTION mailroom_retry_all();
DROP FUNCTION mailroom_retry(bigint[]);
DROP FUNCTION mailroom_prospect(timestamptz, integer);
DROP FUNCTION mailroom_tidy(bigint, bigint, timestamptz, integer);
DROP FUNCTION mailroom_tend(bigint, text, uuid[], bigint, timestamptz);
DROP FUNCTION mailroom_exchange(
    bigint, uuid[], uuid[], uuid[], bigint[], text[], bigint[], text[], integer, bigint,
    uuid[], integer, boolean, integer, integer, timestamptz, timestamptz, bigint, bigint
);
DROP FUNCTION settle_exceptions(uuid[], uuid[], bigint[], text[], bigint[], text[], integer, bigint, bigint);
DROP FUNCTION return_lapsed_leases(timestamptz);
DROP FUNCTION text_on_the_wire(text);
DROP FUNCTION delivery_priority(token_action);
DROP FUNCTION mailroom_clock();

DROP TABLE pending, parked, leases, dead, handovers, collectors, installation;

DROP FUNCTION mailroom_bind();
DROP FUNCTION cluster_identifier();

DROP TYPE delivery_outcome;

COMMIT;

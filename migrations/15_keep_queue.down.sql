-- Collectors can keep no leases any more, so that none can work.

BEGIN;

DROP FUNCTION mailroom.peek(timestamptz, integer);
DROP FUNCTION mailroom.sweep(timestamptz, integer);
DROP FUNCTION mailroom.bind(text);
DROP FUNCTION mailroom.heartbeat(bigint, text, uuid[], bigint, timestamptz, text, bigint, text,
    text, text);
DROP FUNCTION mailroom.return_lapsed_leases(timestamptz);

DROP SEQUENCE mailroom.low_watermark;

COMMIT;

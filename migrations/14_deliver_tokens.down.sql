-- Nobody can collect any more. What waits stays.

BEGIN;

DROP FUNCTION mailroom.list_actions();
DROP FUNCTION mailroom.claim(
    bigint, uuid[], integer, boolean, integer, integer, timestamptz, timestamptz, bigint, bigint,
        smallint[], boolean, bigint, boolean
);
DROP FUNCTION mailroom.reserve(bigint, integer, integer);
DROP SEQUENCE mailroom.rate_in_use, mailroom.rate_spent_until;
DROP FUNCTION mailroom.pass_over(bigint, timestamptz, bigint, bigint[], bigint[], text[], bigint[],
    bigint[], text[]);
DROP FUNCTION mailroom.judge_all(tid[], bigint, smallint[], boolean);
DROP FUNCTION mailroom.judge_without_calls(tid[], bigint, smallint[], boolean);
DROP FUNCTION mailroom.judge(tid[], bigint, smallint[], boolean);
DROP FUNCTION mailroom.judge_candidate(mailroom.candidate, text, text, text, bigint, smallint[],
    boolean);
DROP FUNCTION mailroom.candidates(tid[]);
DROP TYPE mailroom.judgement;
DROP TYPE mailroom.candidate;
DROP FUNCTION mailroom.keep_receipts(uuid[], bigint[], text[], text[], text[]);
DROP FUNCTION mailroom.address_hash(text, bytea);
DROP FUNCTION mailroom.pick(integer, integer, timestamptz, timestamptz, timestamptz, boolean);
DROP FUNCTION mailroom.release(bigint, uuid[]);
DROP FUNCTION mailroom.settle(
    uuid[], uuid[], bigint[], text[], bigint[], text[], integer, bigint, bigint,
    uuid[], bigint[], text[], text[], text[]
);
DROP FUNCTION mailroom.settle_exceptions(uuid[], uuid[], bigint[], text[], bigint[], text[],
    integer, bigint, bigint);
DROP FUNCTION mailroom.doubtful(text);
DROP FUNCTION mailroom.too_late(timestamptz, bigint);
DROP FUNCTION mailroom.pause_after(bigint, bigint, double precision);

COMMIT;

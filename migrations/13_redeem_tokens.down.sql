-- Nobody can use a token any more.

BEGIN;

DROP FUNCTION mailroom.redeem(bytea, text, text, boolean);
DROP FUNCTION mailroom.count_code_attempt(mailroom.issued_tokens, boolean, boolean, bytea, text, bigint);
DROP FUNCTION mailroom.ask_eligibility(text, text[]);
DROP FUNCTION mailroom.predicate_name(text);
DROP TYPE mailroom.verdict;

COMMIT;

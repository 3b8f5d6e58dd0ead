-- Nobody can use a token any more.

BEGIN;

DROP FUNCTION mailroom.redeem(bytea, text, text, boolean, text);
DROP FUNCTION mailroom.use_token(bytea, text, text, boolean, text);
DROP FUNCTION mailroom.count_code_attempt(mailroom.issued_tokens, boolean, boolean, bytea, text,
    text, bigint);
DROP FUNCTION mailroom.ask_eligibility(text, text[]);
DROP FUNCTION mailroom.text_column(text);
DROP FUNCTION mailroom.predicate_name(text);
DROP TYPE mailroom.verdict;

COMMIT;

-- Codes become guessable again. Tokens keep the codes they have.

BEGIN;

-- Ends an autovacuum, for which others would have to wait together with the locks below.
LOCK TABLE tokens IN SHARE UPDATE EXCLUSIVE MODE;

ALTER TABLE tokens
    DROP CONSTRAINT tokens_code_five_digits,
    ALTER COLUMN code SET DEFAULT to_char(random() * 100000, 'FM00000');

DROP FUNCTION generate_token_code();

COMMIT;

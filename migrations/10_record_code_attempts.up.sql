-- Feature: each try of a recovery's code is recorded, so that a code can be tried five times and no sixth time.
--
-- In a table of its own and append-only: the row of a token stays as it was signed, a try leaves no dead row version and
-- touches none of the five indexes of tokens, and most tokens, which nobody tries a code on, cost nothing. The key allows
-- at most five rows a token, whatever a program does.
--
-- Locks: nobody writes to tokens for some milliseconds, however large it is; others read.

BEGIN;

CREATE TABLE code_attempts (
    token bigint NOT NULL,
    ordinal smallint NOT NULL,
    attempted_at bigint NOT NULL,

    CONSTRAINT code_attempts_pkey PRIMARY KEY (token, ordinal),
    CONSTRAINT code_attempts_token_fkey FOREIGN KEY (token) REFERENCES tokens (id) ON DELETE CASCADE,
    CONSTRAINT code_attempts_five_at_most CHECK (ordinal BETWEEN 1 AND 5)
);

COMMENT ON TABLE code_attempts IS
    'Tries of the codes of tokens, right and wrong ones; rows are never changed, and go with their token.';
COMMENT ON COLUMN code_attempts.token IS 'Token whose code was tried.';
COMMENT ON COLUMN code_attempts.ordinal IS '1 for the first try of a token''s code; at most 5.';
COMMENT ON COLUMN code_attempts.attempted_at IS 'Seconds since the Unix epoch.';
COMMENT ON CONSTRAINT code_attempts_pkey ON code_attempts IS
    'Serves redeeming: how often the code of a token was tried; no two tries have the same number.';

COMMIT;

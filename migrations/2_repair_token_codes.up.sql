-- Fault: one token in 200,000 has the code '#####', which nobody can type and everybody could
-- guess. Those get a real code. A mail that already went out with '#####' cannot be answered: its
-- owner has to ask for another.
--
-- Locks, with two million tokens: looks through tokens twice, 1 s in all, while others read and
-- write; only the repaired rows, some ten, cannot be changed meanwhile.

BEGIN;

UPDATE tokens SET code = generate_token_code() WHERE code = '#####';

ALTER TABLE tokens VALIDATE CONSTRAINT tokens_code_five_digits;

COMMIT;

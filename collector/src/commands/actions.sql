-- The actions of the database, and in which format its links are signed.
SELECT number, name, path, code_digits, token_format FROM mailroom.list_actions()

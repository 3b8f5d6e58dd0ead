-- Tokens whose verdict is missing, with their keys.
SELECT token, key FROM mailroom.list_handed_over($1, $2)

-- Takes two rows away that mean nothing any more,
-- so that the table does not grow when every use does so.
DELETE FROM mailroom_used_tokens WHERE (namespace, id) IN (
    SELECT namespace, id FROM mailroom_used_tokens
    WHERE remember_until <= unixepoch('subsec')
    ORDER BY remember_until
    LIMIT 2
)

-- ?1 namespace, ?2 id in hexadecimal, ?3 the time until which to remember it, in seconds since the
-- epoch, ?4 the event, ?5 the most characters of a history. Answers one row, the history with this
-- event at its end, unless that is full; no row if the time is over of what does not end anything.
-- A row whose time is over means nothing, and is begun anew.
INSERT INTO mailroom_used_tokens AS entry (namespace, id, remember_until, history)
SELECT ?1, ?2, ?3, ?4 WHERE ?3 > unixepoch('subsec') OR ?4 GLOB '[rw]*'
ON CONFLICT (namespace, id) DO UPDATE SET
    history = CASE
        WHEN entry.remember_until <= unixepoch('subsec') THEN excluded.history
        WHEN length(entry.history) >= ?5 THEN entry.history
        ELSE entry.history || excluded.history
    END,
    remember_until = max(entry.remember_until, excluded.remember_until)
RETURNING history

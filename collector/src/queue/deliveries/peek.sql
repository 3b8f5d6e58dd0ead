-- Counts due tokens from $1 on, up to about $2, and says when the next one is due. If a transaction
-- with an xid above $3 has ended, it assigns an xid to itself after the clock was read:
-- transactions that had an xid by then have a lower one. A snapshot does not tell that: it lacks
-- running transactions above the highest one that has ended.
-- The condition keeps an idle server from writing.
SELECT
    due, lapsed, next_after, asked_at, oldest_place, unfinished, unended,
    CASE WHEN unended > $3::bigint + 1 THEN pg_current_xact_id()::text::bigint END
        AS assigned_xid
FROM mailroom.peek($1::timestamptz, $2::integer)

-- The runs of collectors, for operators.

CREATE FUNCTION mailroom.list_runs(most integer DEFAULT 50) RETURNS TABLE (
    name text, version text, started_at timestamptz, seen_at timestamptz, fate text, reason text,
    counts json, settings json
)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off
BEGIN ATOMIC
    SELECT
        run.name,
        run.version,
        run.started_at,
        CASE WHEN run.state = 'ended' THEN run.state_since ELSE run.seen_at END,
        CASE
            WHEN run.state = 'ended' THEN 'ended'
            WHEN mailroom.is_seen(run.seen_at, mailroom.clock()) THEN 'alive'
            WHEN mailroom.rests(run.state, run.seen_at, mailroom.clock()) THEN 'resting'
            ELSE 'killed'
        END,
        run.state_reason,
        run.counts,
        run.settings
    FROM mailroom.collectors AS run
    ORDER BY run.started_at DESC, run.collector_id
    LIMIT most;
END;

COMMENT ON FUNCTION mailroom.list_runs(integer) IS
    'For operators: the newest runs of collectors, when each ended or gave the last sign of life, '
    'and whether it is alive, rests, ended in order, or was killed: it has given no sign of life '
    'for 90 seconds, or for 25 hours of a rest.';

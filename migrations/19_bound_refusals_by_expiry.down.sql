-- Refusals count again as failures from now on; those that were not counted are forgotten.

BEGIN;

DO $$
DECLARE
    definition text := pg_get_functiondef('mailroom_exchange'::regproc);
    branch integer := strpos(definition, '    ELSIF pg_catalog.cardinality(settled) > 0 THEN');
    rest integer := strpos(definition, E'\n    -- Nothing of them was sent, so that was no hand-over.');
BEGIN
    IF branch = 0 OR rest < branch THEN
        RAISE EXCEPTION 'mailroom_exchange is not as migration 15 made it';
    END IF;

    EXECUTE overlay(definition PLACING $branch$    ELSIF pg_catalog.cardinality(settled) > 0 THEN
        WITH
        gone AS (
            DELETE FROM leases WHERE batch = ANY (settled) RETURNING *
        ),
        exceptions AS (
            SELECT *
            FROM ROWS FROM (
                pg_catalog.unnest(exception_batches), pg_catalog.unnest(exception_tokens), pg_catalog.unnest(exception_kinds),
                pg_catalog.unnest(exception_waits), pg_catalog.unnest(exception_reasons)
            ) AS exception (batch, token, kind, wait, reason)
        ),
        items AS MATERIALIZED (
            SELECT
                gone.holder,
                gone.batch,
                gone.due_at,
                item.token,
                item.attempt,
                item.failures,
                item.priority,
                exceptions.wait,
                exceptions.reason,
                -- What expires before its pause is over waits until then, so that it is counted then.
                (
                    SELECT greatest(expires_at::double precision - too_late::double precision, 0::double precision)
                    FROM tokens
                    WHERE id = item.token AND exceptions.kind = 'error'
                ) AS lifetime,
                CASE
                    WHEN exceptions.kind IS NULL THEN 'sent'
                    WHEN exceptions.kind = 'error' AND item.failures::integer + 1 >= max_attempts THEN 'dead'
                    ELSE exceptions.kind
                END AS outcome
            FROM gone
            CROSS JOIN LATERAL ROWS FROM (
                pg_catalog.unnest(gone.tokens), pg_catalog.unnest(gone.attempts), pg_catalog.unnest(gone.failures),
                pg_catalog.unnest(gone.priorities)
            ) AS item (token, attempt, failures, priority)
            LEFT JOIN exceptions ON exceptions.batch = gone.batch AND exceptions.token = item.token
        ),
        logged AS (
            INSERT INTO handovers (token, happened_at, holder, batch, attempt, outcome, reason)
            SELECT token, epoch, holder, batch, attempt, outcome::delivery_outcome, reason FROM items
        ),
        given_up AS (
            INSERT INTO dead (token, died_at, attempts, failures, priority, reason)
            SELECT
                token,
                epoch,
                attempt,
                least(failures::integer + 1, 32767)::smallint,
                priority,
                coalesce(reason, '')
            FROM items
            WHERE outcome = 'dead'
            ON CONFLICT DO NOTHING
        )
        INSERT INTO pending (token, due_at, attempts, failures, priority, refused_at)
        SELECT
            token,
            CASE
                -- To its place, which lies in the future only if the clock was set back.
                WHEN outcome = 'unanswered' THEN least(due_at, mailroom_clock())
                ELSE epoch + interval '1 millisecond' * least(
                    CASE
                        -- As the sender wants it, within a day.
                        WHEN wait IS NOT NULL THEN least(wait, 86400000::bigint)::double precision
                        -- Doubling from the first pause up to a minute; between half and all of that, so that what failed
                        -- together does not come back together.
                        ELSE least(
                            backoff::double precision
                                * power(2::double precision, least(failures::integer, 30)::double precision),
                            greatest(backoff, 60000::bigint)::double precision
                        ) * (0.5::double precision + random() / 2::double precision)
                    END,
                    lifetime * 1000::double precision
                )
            END,
            attempt,
            CASE WHEN outcome = 'unanswered' THEN failures ELSE least(failures::integer + 1, 32767)::smallint END,
            priority,
            CASE WHEN outcome = 'error' THEN epoch END
        FROM items
        WHERE outcome IN ('error', 'unanswered')
        ON CONFLICT DO NOTHING;
    END IF;
$branch$ FROM branch FOR rest - branch);
END;
$$;

DROP FUNCTION settle_exceptions(uuid[], uuid[], bigint[], text[], bigint[], text[], integer, bigint, bigint);

COMMENT ON COLUMN pending.failures IS 'How many of these were refused.';
COMMENT ON COLUMN pending.refused_at IS
    'When it was refused, if it waits for that reason; null for all others, which nothing but a clock that was set back keeps'
    ' waiting.';
COMMENT ON COLUMN leases.failures IS 'Of each token, how often it was refused before.';
COMMENT ON COLUMN handovers.reason IS 'What the sender said, for error and dead.';

COMMIT;

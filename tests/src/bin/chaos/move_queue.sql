-- Puts all that the queue writes, and nothing else, on the small disk.
DO $$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        WITH queue AS (
            SELECT unnest(ARRAY['mailroom.queue', 'mailroom.leases', 'mailroom.dead_letters',
                'mailroom.delivery_log', 'mailroom.collectors']::regclass[]) AS relation
        )
        SELECT format('ALTER TABLE %s SET TABLESPACE small', relation) FROM queue
        UNION ALL
        SELECT format('ALTER INDEX %s SET TABLESPACE small', indexrelid::regclass)
        FROM queue JOIN pg_index ON indrelid = relation
    LOOP
        EXECUTE statement;
    END LOOP;
END;
$$

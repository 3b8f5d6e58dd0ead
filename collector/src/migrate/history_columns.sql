-- Whether the history's table has the columns that golang-migrate gives it, because other tools use
-- the same name for tables of another shape; null if it is not there.
SELECT CASE WHEN count(*) > 0 THEN
    count(*) FILTER (WHERE attname = 'version' AND atttypid = 'bigint'::regtype::oid) = 1
        AND count(*) FILTER (WHERE attname = 'dirty' AND atttypid = 'boolean'::regtype::oid) = 1
END
FROM pg_attribute
    JOIN pg_class ON pg_class.oid = attrelid
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = $1 AND relname = $2 AND attnum > 0 AND NOT attisdropped

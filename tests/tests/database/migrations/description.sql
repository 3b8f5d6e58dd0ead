-- Everything that a schema consists of, one line each, without the bookkeeping of migrations.
WITH
relations AS (
    SELECT oid, relname, relkind, relowner, relacl, reloptions, relpersistence
    FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace
        AND relkind IN ('r', 'p', 'v', 'm', 'S', 'i')
        AND relname NOT LIKE 'schema\_migrations%'
        AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e')
),
functions AS (
    SELECT * FROM pg_proc
    WHERE pronamespace = current_schema()::regnamespace
        AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_proc.oid AND deptype = 'e')
),
types AS (
    SELECT * FROM pg_type
    WHERE typnamespace = current_schema()::regnamespace AND typtype IN ('e', 'd', 'r')
),
lines (kind, name, description) AS (
    SELECT 'relation', relname::text, concat_ws(
        ' ', relkind, relpersistence, relowner::regrole, relacl, reloptions, obj_description(oid, 'pg_class')
    )
    FROM relations
    UNION ALL
    SELECT 'column', relname || '.' || attname, concat_ws(
        -- Its place among the columns that there are: dropped ones keep their numbers.
        ' ', row_number() OVER (PARTITION BY attrelid ORDER BY attnum), format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated, attcollation, attstorage,
        attacl, pg_get_expr(adbin, adrelid), col_description(attrelid, attnum)
    )
    FROM pg_attribute
        JOIN relations ON relations.oid = attrelid
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
    WHERE attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT 'constraint', relname || '.' || conname, concat_ws(
        ' ', pg_get_constraintdef(pg_constraint.oid), convalidated, condeferrable, condeferred,
        obj_description(pg_constraint.oid, 'pg_constraint')
    )
    FROM pg_constraint JOIN relations ON relations.oid = conrelid
    UNION ALL
    SELECT 'index', relname::text, concat_ws(' ', pg_get_indexdef(indexrelid), indisvalid, indisready, indisclustered)
    FROM pg_index JOIN relations ON relations.oid = indexrelid
    UNION ALL
    SELECT 'sequence', relname::text, concat_ws(
        ' ', format_type(seqtypid, NULL), seqstart, seqincrement, seqmax, seqmin, seqcache, seqcycle,
        (
            SELECT refobjid::regclass || '.' || refobjsubid FROM pg_depend
            WHERE objid = seqrelid AND classid = 'pg_class'::regclass AND deptype = 'a'
        )
    )
    FROM pg_sequence JOIN relations ON relations.oid = seqrelid
    UNION ALL
    SELECT 'trigger', relname || '.' || tgname, concat_ws(
        ' ', pg_get_triggerdef(pg_trigger.oid), tgenabled, obj_description(pg_trigger.oid, 'pg_trigger')
    )
    FROM pg_trigger JOIN relations ON relations.oid = tgrelid
    WHERE NOT tgisinternal
    UNION ALL
    SELECT 'function', oid::regprocedure::text, concat_ws(
        ' ', pg_get_functiondef(oid), proowner::regrole, proacl, obj_description(oid, 'pg_proc')
    )
    FROM functions
    UNION ALL
    SELECT 'type', typname::text, concat_ws(
        ' ', typowner::regrole,
        (SELECT string_agg(enumlabel, ', ' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = types.oid),
        obj_description(oid, 'pg_type')
    )
    FROM types
    UNION ALL
    SELECT 'extension', extname::text, concat_ws(' ', extversion, extnamespace::regnamespace) FROM pg_extension
    UNION ALL
    SELECT 'view', viewname::text, definition FROM pg_views WHERE schemaname = current_schema()
)
SELECT kind || ' ' || name || ': ' || description FROM lines ORDER BY 1

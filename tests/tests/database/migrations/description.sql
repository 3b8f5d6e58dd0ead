-- Everything that the schema of the base tables and the schema mailroom consist of, one line each,
-- without the bookkeeping of migrations.
WITH
homes AS (
    SELECT oid, nspname, nspowner, nspacl FROM pg_namespace
        WHERE nspname IN (current_schema(), 'mailroom')
),
relations AS (
    SELECT pg_class.oid, nspname || '.' || relname
        AS relname, relkind, relowner, relacl, reloptions, relpersistence, relreplident
    FROM pg_class JOIN homes ON homes.oid = relnamespace
    WHERE relkind IN ('r', 'p', 'v', 'm', 'S', 'i')
        AND relname NOT LIKE 'schema\_migrations%'
        AND relname NOT LIKE 'migrations%'
        AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e')
),
functions AS (
    SELECT * FROM pg_proc
    WHERE pronamespace IN (SELECT oid FROM homes)
        AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_proc.oid AND deptype = 'e')
),
types AS (
    SELECT * FROM pg_type
    WHERE typnamespace IN (SELECT oid FROM homes) AND typtype IN ('e', 'd', 'r')
),
lines (kind, name, description) AS (
    SELECT 'schema', nspname::text, concat_ws(' ', nspowner::regrole, nspacl,
        obj_description(oid, 'pg_namespace'))
    FROM homes
    UNION ALL
    SELECT 'relation', relname, concat_ws(
        ' ', relkind, relpersistence, relreplident, relowner::regrole, relacl, reloptions,
        obj_description(oid, 'pg_class')
    )
    FROM relations
    UNION ALL
    SELECT 'column', relname || '.' || attname, concat_ws(
        -- Its place among the columns that there are: dropped ones keep their numbers.
        ' ', row_number() OVER (PARTITION BY attrelid
        ORDER BY attnum), format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated,
        attcollation, attstorage,
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
    SELECT 'index', relname, concat_ws(' ', pg_get_indexdef(indexrelid), indisvalid, indisready,
        indisclustered)
    FROM pg_index JOIN relations ON relations.oid = indexrelid
    UNION ALL
    SELECT 'sequence', relname, concat_ws(
        ' ', format_type(seqtypid, NULL), seqstart, seqincrement, seqmax, seqmin, seqcache,
        seqcycle,
        (
            SELECT refobjid::regclass || '.' || refobjsubid FROM pg_depend
            WHERE objid = seqrelid AND classid = 'pg_class'::regclass AND deptype = 'a'
        )
    )
    FROM pg_sequence JOIN relations ON relations.oid = seqrelid
    UNION ALL
    SELECT 'trigger', relname || '.' || tgname, concat_ws(
        ' ', pg_get_triggerdef(pg_trigger.oid), tgenabled,
        obj_description(pg_trigger.oid, 'pg_trigger')
    )
    FROM pg_trigger JOIN relations ON relations.oid = tgrelid
    WHERE NOT tgisinternal
    UNION ALL
    SELECT 'function', oid::regprocedure::text, concat_ws(
        ' ', pg_get_functiondef(oid), proowner::regrole, proacl, obj_description(oid, 'pg_proc')
    )
    FROM functions
    UNION ALL
    SELECT 'type', oid::regtype::text, concat_ws(
        ' ', typowner::regrole,
        (SELECT string_agg(enumlabel, ', ' ORDER BY enumsortorder) FROM pg_enum
            WHERE enumtypid = types.oid),
        obj_description(oid, 'pg_type')
    )
    FROM types
    UNION ALL
    SELECT 'extension', extname::text, concat_ws(' ', extversion, extnamespace::regnamespace)
        FROM pg_extension
    UNION ALL
    SELECT 'view', relname, pg_get_viewdef(oid) FROM relations WHERE relkind = 'v'
)
SELECT kind || ' ' || name || ': ' || description FROM lines ORDER BY 1

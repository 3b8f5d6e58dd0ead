-- The schema of the tables that are made, $3 or the first of the search path; that of the history's table $2, $1 or the same; and
-- which installation of Mailroom the database has: one without accounts, and any that has the schema mailroom.
SELECT
    home,
    table_home,
    format('%I.%I', coalesce(table_home, ''), $2::text),
    current_schema()::text,
    to_regclass('mailroom.migrations') IS NOT NULL,
    to_regclass('mailroom.installation') IS NOT NULL
FROM coalesce($3::text, current_schema()::text) AS home, coalesce($1::text, home) AS table_home

-- Fixes the search path to the schemas that are there now, so that the schema mailroom, once it is
-- made, does not come first for a role of that name. It stays where the tables of accounts are in
-- it.
SELECT set_config('search_path', coalesce(string_agg(quote_ident(nspname::text), ', '
    ORDER BY number), ''), false)
FROM pg_catalog.unnest(current_schemas(false)) WITH ORDINALITY AS schema (nspname, number)
WHERE NOT nspname = 'mailroom' OR to_regclass('mailroom.installation') IS NULL
    OR to_regclass('mailroom.jobs') IS NOT NULL

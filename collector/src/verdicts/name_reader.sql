-- How this database is called at a broker, and whether every text can be stored in it.
SELECT mailroom.name_reader($1), pg_catalog.getdatabaseencoding() = 'UTF8'

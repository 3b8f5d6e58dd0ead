-- Which tables the database has that get rows where mails are asked for or sent.
SELECT
    to_regclass('mailroom.issued_tokens') IS NOT NULL,
    to_regclass('mailroom.delivery_log') IS NOT NULL,
    to_regclass('mailroom.collectors') IS NOT NULL,
    to_regclass('tokens') IS NOT NULL

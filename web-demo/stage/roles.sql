-- The rights of docs/operate/rights.md. {prefix} and the passwords are filled in, and consist of
-- letters, digits and underscores.
CREATE ROLE {prefix}_collector LOGIN PASSWORD '{collector_password}';

GRANT EXECUTE ON FUNCTION
    mailroom.settle, mailroom.release, mailroom.claim, mailroom.heartbeat, mailroom.sweep,
        mailroom.peek, mailroom.list_actions
    TO {prefix}_collector;

CREATE ROLE {prefix}_application LOGIN PASSWORD '{application_password}';

GRANT SELECT, DELETE ON accounts TO {prefix}_application;
GRANT INSERT (email, login, status), UPDATE (email, login, status)
    ON accounts TO {prefix}_application;
GRANT USAGE ON SEQUENCE accounts_id_seq TO {prefix}_application;
GRANT EXECUTE ON FUNCTION mailroom.request, mailroom.redeem,
    mailroom.enqueue TO {prefix}_application;

CREATE ROLE {prefix}_server LOGIN PASSWORD '{server_password}';

GRANT EXECUTE ON FUNCTION mailroom.redeem TO {prefix}_server;

GRANT USAGE ON SCHEMA product TO {prefix}_application;
GRANT SELECT, INSERT (team, email), UPDATE (accepted_at)
    ON product.invitations TO {prefix}_application;

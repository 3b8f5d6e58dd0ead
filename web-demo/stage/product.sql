-- A table of a product, which knows nothing of Mailroom: the application calls mailroom.enqueue
-- when it inserts.
CREATE SCHEMA product;

CREATE TABLE product.invitations (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    team text NOT NULL,
    email text NOT NULL,
    invited_at timestamptz NOT NULL DEFAULT now(),
    accepted_at timestamptz
);

-- Tokens as a change data capture sees them: made, used, cancelled. Nothing of a link, a code, an
-- address or a payload is in it.
CREATE PUBLICATION mailroom_outbox
    FOR TABLE mailroom.issued_tokens (
        id, action, subject_id, created_at, expires_at, consumed_at, cancelled_at
    )
    WITH (publish = 'insert, update');

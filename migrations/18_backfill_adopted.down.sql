-- no-transaction
--
-- What was filled in stays, and so do tokens in the queue, until migration 17 is taken back.
--
-- Locks: nobody waits.

ALTER TABLE mailroom.installation
    ADD COLUMN IF NOT EXISTS adopted_after bigint, ADD COLUMN IF NOT EXISTS adopts_through bigint;

-- What providers said of the mails that they accepted.

-- Addresses are kept as a hash with a key that only the owner reads: whoever reads a receipt can
-- neither read the address nor try addresses.
CREATE FUNCTION mailroom.address_hash(address text, key bytea) RETURNS bytea
LANGUAGE sql STABLE
RETURN substr(sha256(key || mailroom.to_utf8(mailroom.normal_address(address))), 1, 16);

COMMENT ON FUNCTION mailroom.address_hash(text, bytea) IS
    'By which receipts know an address: 16 bytes, with the key of the installation.';

-- The leases are locked, so that a settlement that is repeated while the first one commits
-- keeps nothing twice.
CREATE FUNCTION mailroom.keep_receipts(
    receipt_batches uuid[],
    receipt_tokens bigint[],
    receipt_providers text[],
    receipt_message_ids text[],
    receipt_answers text[]
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    key bytea := (SELECT address_key FROM mailroom.installation);
BEGIN
    WITH
    held AS MATERIALIZED (
        SELECT batch, tokens, attempts FROM mailroom.leases
            WHERE batch = ANY (receipt_batches) FOR UPDATE
    ),
    -- By itself, so that it is joined by hashes and not read again for each receipt of its batch.
    item AS MATERIALIZED (
        SELECT held.batch, each.token, each.attempt
        FROM held
        CROSS JOIN LATERAL ROWS FROM (
            pg_catalog.unnest(held.tokens), pg_catalog.unnest(held.attempts)
        ) AS each (token, attempt)
    )
    INSERT INTO mailroom.receipts (
        token, attempt, accepted_at, action, provider, message_id, answer, address_hash
    )
    SELECT
        item.token, item.attempt, mailroom.clock(), known.action, receipt.provider,
        left(receipt.message_id, 200), left(receipt.answer, 200),
        mailroom.address_hash(known.recipient_email, key)
    FROM item
    JOIN ROWS FROM (
        pg_catalog.unnest(receipt_batches), pg_catalog.unnest(receipt_tokens),
        pg_catalog.unnest(receipt_providers), pg_catalog.unnest(receipt_message_ids),
        pg_catalog.unnest(receipt_answers)
    ) AS receipt (batch, token, provider, message_id, answer)
        ON receipt.batch = item.batch AND receipt.token = item.token
    -- Of a token that was deleted meanwhile none is kept: its subject may have been forgotten.
    -- OFFSET 0 keeps this a look-up by primary key for each row.
    CROSS JOIN LATERAL (
        SELECT action, recipient_email FROM mailroom.issued_tokens WHERE id = item.token OFFSET 0
    ) AS known;
END;
$$;

COMMENT ON FUNCTION mailroom.keep_receipts(uuid[], bigint[], text[], text[], text[]) IS
    'Keeps what providers said of mails that they accepted, of batches that are still leased.';

CREATE TABLE IF NOT EXISTS mailroom_used_tokens (
    namespace text COLLATE "C" NOT NULL,
    id bytea NOT NULL,
    remember_until timestamptz NOT NULL,
    holder text,
    owners text[] NOT NULL,
    tries jsonb NOT NULL,
    CONSTRAINT mailroom_used_tokens_pkey PRIMARY KEY (namespace, id),
    CONSTRAINT mailroom_used_tokens_id_check CHECK (octet_length(id) = 16)
);
CREATE INDEX IF NOT EXISTS mailroom_used_tokens_remember_until_idx
    ON mailroom_used_tokens (remember_until);
COMMENT ON TABLE mailroom_used_tokens IS
    'Used tokens of mailroom-verifier, and the codes that were tried on each';
COMMENT ON COLUMN mailroom_used_tokens.namespace IS
    'The installation; a copied database has the same ids';
COMMENT ON COLUMN mailroom_used_tokens.id IS
    'Consumed-token id: 16 bytes that reveal nothing of the token';
COMMENT ON COLUMN mailroom_used_tokens.remember_until IS
    'From when on the row means nothing and is deleted by others';
COMMENT ON COLUMN mailroom_used_tokens.holder IS
    'The redemption that has the use: 32 hexadecimal digits; null: not used, or given back';
COMMENT ON COLUMN mailroom_used_tokens.owners IS
    'Every redemption that has or had the use, at most 100: '
    'a repeat of its statement gets no second one';
COMMENT ON COLUMN mailroom_used_tokens.tries IS
    'The number of each redemption that tried a code, at most 100; 0: taken back';

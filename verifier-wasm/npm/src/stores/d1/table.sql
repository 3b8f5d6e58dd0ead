CREATE TABLE IF NOT EXISTS mailroom_used_tokens (namespace TEXT NOT NULL, id TEXT NOT NULL,
    remember_until REAL NOT NULL, history TEXT NOT NULL, PRIMARY KEY (namespace, id)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS mailroom_used_tokens_remember_until
    ON mailroom_used_tokens (remember_until);

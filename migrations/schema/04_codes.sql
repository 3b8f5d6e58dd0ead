-- How often codes were tried, and the digits that browsers show.

CREATE TABLE mailroom.code_attempts (
    token bigint NOT NULL,
    ordinal smallint NOT NULL,
    attempted_at bigint NOT NULL,
    is_other_browser boolean NOT NULL DEFAULT false,

    CONSTRAINT code_attempts_pkey PRIMARY KEY (token, is_other_browser, ordinal),
    CONSTRAINT code_attempts_token_fkey FOREIGN KEY (token) REFERENCES mailroom.issued_tokens (id)
        ON DELETE CASCADE,
    CONSTRAINT code_attempts_five_at_most CHECK (ordinal BETWEEN 1 AND 5)
);

COMMENT ON TABLE mailroom.code_attempts IS
    'Tries of the codes of tokens, right and wrong ones; rows are never changed, '
    'and go with their token.';
COMMENT ON COLUMN mailroom.code_attempts.token IS 'Token whose code was tried.';
COMMENT ON COLUMN mailroom.code_attempts.ordinal IS
    '1 for the first try of a token''s code; at most 5.';
COMMENT ON COLUMN mailroom.code_attempts.attempted_at IS 'Seconds since the Unix epoch.';
COMMENT ON COLUMN mailroom.code_attempts.is_other_browser IS
    'Whether it came from a browser that the link is not bound to. Such tries have numbers of '
    'their own, so that whoever has only the link takes none of those away '
    'that the bound browser has.';
COMMENT ON CONSTRAINT code_attempts_pkey ON mailroom.code_attempts IS
    'Serves redeeming: how often the code of a token was tried; no two tries have the same number.';

CREATE TABLE mailroom.code_failures (
    subject text NOT NULL,
    failures integer NOT NULL,
    rests_until bigint NOT NULL,
    is_other_browser boolean NOT NULL DEFAULT false,
    noticed_at bigint,

    CONSTRAINT code_failures_pkey PRIMARY KEY (subject, is_other_browser)
);

CREATE INDEX code_failures_rests_until_idx ON mailroom.code_failures (rests_until);

COMMENT ON TABLE mailroom.code_failures IS
    'How many wrong codes were entered in a row for a subject, over all of its tokens (NIST SP '
    '800-63B allows a hundred). A right code deletes the row, or ends the count of one that was '
    'noticed within a day; deleting tokens does not.';
COMMENT ON COLUMN mailroom.code_failures.subject IS
    'Subject id; the normal form of the address where a token has none.';
COMMENT ON COLUMN mailroom.code_failures.failures IS 'Wrong codes since the last right one.';
COMMENT ON COLUMN mailroom.code_failures.rests_until IS
    'Until then redeem() accepts no code for the subject and request() makes no token for it, of '
    'any action; in seconds since the Unix epoch. '
    'Before the hundredth wrong code the time of the last one.';
COMMENT ON COLUMN mailroom.code_failures.noticed_at IS
    'When the subject was told of wrong codes last, in seconds since the Unix epoch; of both '
    'browsers in the row whose is_other_browser is false.';
COMMENT ON INDEX mailroom.code_failures_rests_until_idx IS 'Serves pruning.';
COMMENT ON COLUMN mailroom.code_failures.is_other_browser IS
    'As in code_attempts: wrong codes entered in other browsers block only codes entered '
    'in other browsers.';

CREATE TABLE mailroom.browser_codes (
    binding bytea NOT NULL,
    code text NOT NULL,
    tries smallint NOT NULL DEFAULT 0,
    expires_at bigint NOT NULL,

    CONSTRAINT browser_codes_pkey PRIMARY KEY (binding),
    CONSTRAINT browser_codes_binding CHECK (octet_length(binding) = 16),
    CONSTRAINT browser_codes_five_at_most CHECK (tries BETWEEN 0 AND 5)
);

CREATE INDEX browser_codes_expires_at_idx ON mailroom.browser_codes (expires_at);

COMMENT ON TABLE mailroom.browser_codes IS
    'Digits that a browser shows, for using the links that are bound to it in another one. They '
    'are in no mail and in no token, and worth nothing without the link.';
COMMENT ON COLUMN mailroom.browser_codes.binding IS
    'The browser, as in issued_tokens; it need not have a token.';
COMMENT ON COLUMN mailroom.browser_codes.code IS 'Five digits.';
COMMENT ON COLUMN mailroom.browser_codes.tries IS
    'How often a code was entered in place of these digits, right or wrong; at most 5.';
COMMENT ON COLUMN mailroom.browser_codes.expires_at IS
    'A day after they were shown last, in seconds since the Unix epoch.';
COMMENT ON INDEX mailroom.browser_codes_expires_at_idx IS 'Serves pruning.';

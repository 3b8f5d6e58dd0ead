-- Functions by which a server that speaks HTTP only, such as an edge function, calls Mailroom
-- through PostgREST or Supabase. Whoever has the key of the role service_role can call them, and
-- nobody else: that key belongs to servers, never into a page. To be executed by the owner of
-- Mailroom's functions, once; the role application is that of docs/operate/rights.md. With accounts
-- of Mailroom's own a function for mailroom.request may be added in the same way.
--
-- All parameters are texts, and bytes hexadecimal digits, so that JSON says all of them.

CREATE FUNCTION mailroom_enqueue(
    action text,
    recipient_email text,
    recipient_name text DEFAULT NULL,
    subject_id text DEFAULT NULL,
    payload text DEFAULT NULL,
    language text DEFAULT NULL,
    deliver_at text DEFAULT NULL,
    idempotency_key text DEFAULT NULL,
    binding text DEFAULT NULL,
    notice_recipient text DEFAULT NULL,
    traceparent text DEFAULT NULL
) RETURNS text
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT mailroom.enqueue(action, recipient_email, recipient_name, subject_id, payload::jsonb,
        language, deliver_at::timestamptz, idempotency_key, decode(binding, 'hex'),
        notice_recipient, traceparent)::text
$$;

CREATE FUNCTION mailroom_redeem(
    secret text,
    action text,
    code text DEFAULT NULL,
    binding_proven text DEFAULT 'false',
    browser_code text DEFAULT NULL
) RETURNS json
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT json_build_object(
        'verdict', used.verdict, 'token', used.token::text, 'subject_id', used.subject_id
    )
    FROM mailroom.redeem(decode(secret, 'hex'), action, code, binding_proven::boolean,
        browser_code) AS used
$$;

CREATE FUNCTION mailroom_browser_code(binding text) RETURNS text
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT mailroom.browser_code(decode(binding, 'hex'))
$$;

CREATE FUNCTION mailroom_cancel(token text) RETURNS boolean
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT mailroom.cancel(token::bigint)
$$;

CREATE FUNCTION mailroom_cancel_subject(subject_id text, only_proofs text DEFAULT 'false')
    RETURNS integer
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT mailroom.cancel_subject(subject_id, only_proofs::boolean)
$$;

CREATE FUNCTION mailroom_recheck(subject_id text) RETURNS integer
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT mailroom.recheck(subject_id)
$$;

CREATE FUNCTION mailroom_renew_link(secret text, action text) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT mailroom.renew_link(decode(secret, 'hex'), action)
$$;

-- They run with the rights of their caller: who is no application is refused twice.
GRANT application TO service_role;
REVOKE ALL ON FUNCTION mailroom_enqueue, mailroom_redeem, mailroom_browser_code, mailroom_cancel,
    mailroom_cancel_subject, mailroom_recheck, mailroom_renew_link FROM PUBLIC, anon, authenticated;
GRANT EXECUTE ON FUNCTION mailroom_enqueue, mailroom_redeem, mailroom_browser_code,
    mailroom_cancel, mailroom_cancel_subject, mailroom_recheck, mailroom_renew_link TO service_role;

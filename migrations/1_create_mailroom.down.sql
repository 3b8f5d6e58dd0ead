-- Forgets whom Mailroom wrote to, what waits, and what was delivered when, by whom and why not.

BEGIN;

-- Functions and operators are PostgreSQL's own here, whatever is on the caller's path.
SET LOCAL search_path = pg_catalog, pg_temp;

DROP FUNCTION mailroom.export_subject(text, text);
DROP FUNCTION mailroom.forget(text, text);
DROP FUNCTION mailroom.receipts_of(bigint[], text);
DROP FUNCTION mailroom.tokens_of(text, text);
DROP FUNCTION mailroom.prune_tokens(timestamptz, bigint, integer);
DROP SEQUENCE mailroom.longest_limit;
DROP FUNCTION mailroom.prune_dead_letters(timestamptz, integer);
DROP FUNCTION mailroom.prune_attempts(timestamptz, bigint, integer);
DROP FUNCTION mailroom.begin_step(timestamptz);
DROP FUNCTION mailroom.list_runs(integer);
DROP FUNCTION mailroom.measure_budget();
DROP FUNCTION mailroom.measure_rate(bigint);
DROP FUNCTION mailroom.measure();
DROP FUNCTION mailroom.status();
DROP FUNCTION mailroom.present_collectors(timestamptz);
DROP FUNCTION mailroom.trace(bigint[], text);
DROP FUNCTION mailroom.trace_token(bigint, timestamptz);
DROP VIEW mailroom.waiting;
DROP VIEW mailroom.deliveries;
DROP FUNCTION mailroom.history(bigint);
DROP VIEW mailroom.delivery_attempts;
DROP VIEW mailroom.suppressed_addresses;
DROP FUNCTION mailroom.lift_suppression(text);
DROP FUNCTION mailroom.suppress(text, text, text, text);
DROP FUNCTION mailroom.discard_all(interval);
DROP FUNCTION mailroom.discard(bigint[]);
DROP FUNCTION mailroom.retry_all(boolean);
DROP FUNCTION mailroom.retry(bigint[]);

DROP FUNCTION mailroom.peek(timestamptz, integer);
DROP FUNCTION mailroom.sweep(timestamptz, integer);
DROP FUNCTION mailroom.bind(text);
DROP FUNCTION mailroom.heartbeat(bigint, text, uuid[], bigint, timestamptz, text, bigint, text,
    text, text, text, text, text);
DROP FUNCTION mailroom.return_lapsed_leases(timestamptz);

DROP SEQUENCE mailroom.low_watermark;

DROP FUNCTION mailroom.list_actions();
DROP FUNCTION mailroom.claim(
    bigint, uuid[], integer, boolean, integer, integer, timestamptz, timestamptz, bigint, bigint,
        smallint[], boolean, bigint, boolean, bigint
);
DROP FUNCTION mailroom.return_unspent(bigint, bigint);
DROP FUNCTION mailroom.spend(bigint, bigint, integer, bigint);
DROP FUNCTION mailroom.read_budget(timestamptz);
DROP SEQUENCE mailroom.budget_in_use, mailroom.budget_spent;
DROP SEQUENCE mailroom.rate_in_use, mailroom.rate_spent_until;
DROP FUNCTION mailroom.skip(bigint, timestamptz, bigint, bigint[], bigint[], text[], bigint[],
    bigint[], text[]);
DROP FUNCTION mailroom.check_candidates(tid[], bigint, smallint[], boolean);
DROP FUNCTION mailroom.check_without_calls(tid[], bigint, smallint[], boolean);
DROP FUNCTION mailroom.check_eligibility(tid[], bigint, smallint[], boolean);
DROP FUNCTION mailroom.check_candidate(mailroom.candidate, text, text, text, bigint, smallint[],
    boolean);
DROP FUNCTION mailroom.expired_unsent();
DROP FUNCTION mailroom.candidates(tid[]);
DROP TYPE mailroom.checked_candidate;
DROP TYPE mailroom.candidate;
DROP FUNCTION mailroom.name_reader(text);
DROP FUNCTION mailroom.list_handed_over(bigint, integer);
DROP FUNCTION mailroom.settle_verdicts(bigint[], text[], text[], integer[], integer[], text[],
    text[], text[], text[]);
DROP FUNCTION mailroom.settle_verdict(bigint, text, text, integer, integer, text, text, text, text);
DROP FUNCTION mailroom.try_suppress(text, text);
DROP FUNCTION mailroom.keep_receipts(uuid[], bigint[], text[], text[], text[]);
DROP FUNCTION mailroom.address_hash(text, bytea);
DROP FUNCTION mailroom.others_sign_more(timestamptz);
DROP FUNCTION mailroom.lock_candidates(integer, integer, timestamptz, timestamptz, timestamptz,
    boolean, boolean);
DROP FUNCTION mailroom.release(bigint, uuid[]);
DROP FUNCTION mailroom.settle(
    uuid[], uuid[], bigint[], text[], bigint[], text[], integer, bigint, bigint,
    uuid[], bigint[], text[], text[], text[]
);
DROP FUNCTION mailroom.settle_exceptions(uuid[], uuid[], bigint[], text[], bigint[], text[],
    integer, bigint, bigint);
DROP FUNCTION mailroom.end_leases(uuid[], uuid[], bigint[], text[], bigint[], text[],
    integer, bigint, bigint);
DROP TYPE mailroom.settled_token;
DROP FUNCTION mailroom.doubtful(text);
DROP FUNCTION mailroom.outcome_of(text, smallint, smallint, integer, boolean, boolean);
DROP FUNCTION mailroom.pause_before_retry(text, bigint, smallint, bigint, bigint, double precision);
DROP FUNCTION mailroom.expiry_bound(timestamptz, bigint);
DROP FUNCTION mailroom.pause_after(bigint, bigint, double precision);
DROP FUNCTION mailroom.leased_tokens(mailroom.leases);

DROP FUNCTION mailroom.renew_link(bytea, text);
DROP FUNCTION mailroom.redeem(bytea, text, text, boolean, text);
DROP FUNCTION mailroom.use_token(bytea, text, text, boolean, text);
DROP FUNCTION mailroom.end_others(mailroom.issued_tokens, mailroom.actions, bigint[], bigint);
DROP FUNCTION mailroom.count_code_attempt(mailroom.issued_tokens, boolean, boolean, bytea, text,
    text, bigint);
DROP FUNCTION mailroom.notify_of_codes(mailroom.issued_tokens, text, bigint);
DROP FUNCTION mailroom.notify_of_use(mailroom.issued_tokens, mailroom.actions, text);
DROP FUNCTION mailroom.notify(text, text, text, text, text, text);
DROP FUNCTION mailroom.ask_eligibility(text, text[]);
DROP FUNCTION mailroom.text_column(text);
DROP FUNCTION mailroom.predicate_call(text, boolean);
DROP FUNCTION mailroom.refuse_predicate(text);
DROP TYPE mailroom.verdict;

DROP TRIGGER before_token_change ON mailroom.issued_tokens;
DROP TRIGGER before_actions_truncate ON mailroom.actions;
DROP TRIGGER before_action_change ON mailroom.actions;
DROP TRIGGER after_queue_insert ON mailroom.queue;

DROP FUNCTION mailroom.recheck(text);
DROP FUNCTION mailroom.cancel_subject(text, boolean);
DROP FUNCTION mailroom.lock_links(text, bigint);
DROP FUNCTION mailroom.cancel(bigint);
DROP FUNCTION mailroom.living_tokens(bigint[], bigint);
DROP FUNCTION mailroom.withdraw(bigint[], text);
DROP FUNCTION mailroom.delete_payloads(bigint[]);
DROP FUNCTION mailroom.browser_code(bytea);
DROP FUNCTION mailroom.enqueue(text, text, text, text, jsonb, text, timestamptz, text, bytea,
    text, text);
DROP FUNCTION mailroom.find_key(smallint, text);
DROP FUNCTION mailroom.traceparent(text);
DROP FUNCTION mailroom.valid_traceparent(text);
DROP FUNCTION mailroom.payload_fault(jsonb);
DROP FUNCTION mailroom.language_tag(text);
DROP FUNCTION mailroom.is_language(text);
DROP FUNCTION mailroom.is_addressable(text);
DROP FUNCTION mailroom.is_address(text);
DROP FUNCTION mailroom.normal_address(text);
DROP FUNCTION mailroom.map_address(text);
DROP FUNCTION mailroom.to_ascii_label(integer[]);
DROP FUNCTION mailroom.punycode(integer[]);
DROP FUNCTION mailroom.fold_letter(integer);
DROP FUNCTION mailroom.code_points(bytea);
DROP FUNCTION mailroom.is_utf8();
DROP FUNCTION mailroom.to_utf8(text);
DROP FUNCTION mailroom.next_token_id();
DROP FUNCTION mailroom.trg_before_token_change();
DROP FUNCTION mailroom.trg_before_action_change();
DROP FUNCTION mailroom.is_predicate(oid);
DROP FUNCTION mailroom.is_definer(text);
DROP FUNCTION mailroom.trg_after_queue_insert();
DROP FUNCTION mailroom.generate_code(integer);
DROP FUNCTION mailroom.generate_secret();
DROP FUNCTION mailroom.code_hash(bytea, text);
DROP FUNCTION mailroom.consumed_id(bytea);

DROP TABLE
    mailroom.prune_lock, mailroom.rate_lock, mailroom.installation, mailroom.collectors,
        mailroom.suppressions, mailroom.receipts, mailroom.delivery_log, mailroom.dead_letters,
        mailroom.handed_over, mailroom.leases, mailroom.queue,
    mailroom.browser_codes, mailroom.code_failures, mailroom.code_attempts,
        mailroom.idempotency_keys, mailroom.payloads, mailroom.issued_tokens, mailroom.actions;

DROP FUNCTION mailroom.lock_briefly(regclass[]);
DROP FUNCTION mailroom.revoke_default_privileges();
DROP FUNCTION mailroom.refuse_public_definers();
DROP FUNCTION mailroom.rests(text, timestamptz, timestamptz);
DROP FUNCTION mailroom.is_seen(timestamptz, timestamptz);
DROP FUNCTION mailroom.clock();
DROP FUNCTION mailroom.cluster_identifier();
DROP TYPE mailroom.outcome;

-- It stays where it holds the record of migrations, or something of an application's.
DO $$
BEGIN
    DROP SCHEMA mailroom;
EXCEPTION WHEN dependent_objects_still_exist THEN
    NULL;
END;
$$;

COMMIT;

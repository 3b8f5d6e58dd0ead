-- Nobody can enqueue any more.

BEGIN;

DROP TRIGGER before_token_change ON mailroom.issued_tokens;
DROP TRIGGER before_actions_truncate ON mailroom.actions;
DROP TRIGGER before_action_change ON mailroom.actions;
DROP TRIGGER after_queue_insert ON mailroom.queue;

DROP FUNCTION mailroom.recheck(text);
DROP FUNCTION mailroom.cancel_subject(text, boolean);
DROP FUNCTION mailroom.cancel(bigint);
DROP FUNCTION mailroom.withdraw(bigint[], text);
DROP FUNCTION mailroom.browser_code(bytea);
DROP FUNCTION mailroom.enqueue(text, text, text, text, jsonb, text, timestamptz, text, bytea);
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
DROP FUNCTION mailroom.trg_after_queue_insert();
DROP FUNCTION mailroom.generate_code(integer);
DROP FUNCTION mailroom.generate_secret();
DROP FUNCTION mailroom.code_hash(bytea, text);
DROP FUNCTION mailroom.consumed_id(bytea);

COMMIT;

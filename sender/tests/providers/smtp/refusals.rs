//! Whose fault a refusal is, told by a server.

use super::server::{Act, Script, Server};
use super::{start, verdict, verdict_with};

#[test]
fn what_a_server_says_of_us_at_any_step_is_nobody_elses_fault() {
    for (verb, line) in [
        ("RCPT", "504 5.5.2 <[127.0.0.1]>: Helo command rejected: need fully-qualified hostname"),
        ("RCPT", "554 5.7.1 <ada@example.org>: Relay access denied"),
        ("RCPT", "553 5.7.1 <us@x.test>: Sender address rejected: not logged in"),
        ("RCPT", "530 5.7.0 Authentication required"),
        ("RCPT", "550 5.4.5 Daily user sending limit exceeded. - gsmtp"),
        ("RCPT", "554 Message limit exceeded, try again later"),
        ("RCPT", "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using x"),
        ("RCPT", "450 4.7.1 <us@x.test>: Sender address rejected: rate limit exceeded"),
        ("DATA", "550 5.4.5 Daily user sending limit exceeded. - gsmtp"),
        ("end", "550 5.4.5 Daily user sending limit exceeded. - gsmtp"),
        ("end", "554 5.2.252 SendAsDenied; app@x.test not allowed to send as us@x.test"),
        ("end", "550 5.7.60 SMTP; Client does not have permissions to send as this sender"),
        ("end", "554 Message rejected: Email address is not verified."),
        ("MAIL", "550 5.4.5 Daily user sending limit exceeded. - gsmtp"),
        ("MAIL", "530 5.7.57 Client not authenticated to send mail"),
        ("RCPT", "421 4.7.0 shutting down"),
    ] {
        let server = Server::start(Script::new().at(verb, Act::line(line)));
        let verdict = verdict(&server);
        assert_eq!(verdict.kind, "unavailable", "{line}: {verdict:?}");
        assert!(verdict.reason.contains(line), "{verdict:?}");
    }
}

#[test]
fn what_is_about_one_recipient_is_that_ones_alone() {
    let gbk = [&b"550 5.1.1 "[..], b"\xc3\xbb\xd3\xd0", b"\r\n"].concat();
    for (act, expected) in [
        (Act::line("550 5.1.1 <bad@x.test>: no such user"), "dead"),
        (Act::Say(gbk), "dead"),
        (Act::say("550 no such user\n"), "dead"),
        (Act::line("571 5.7.1 blocked"), "retry"),
        (Act::line("550"), "retry"),
        (Act::say("550 no\n"), "retry"),
        (Act::line("550 4.2.1 mailbox busy, try later"), "retry"),
        (Act::line("450 5.1.1 no such user"), "retry"),
        (Act::line("552 5.2.2 mailbox full"), "retry"),
        (Act::line("554 5.7.1 never"), "retry"),
        (Act::close(""), "retry"),
        (Act::close("25"), "retry"),
        (Act::close("550 "), "retry"),
        (Act::close("550 5.1.1 no such us"), "retry"),
        (Act::close("550-5.7.1 Relay access denied\r\n550 5."), "retry"),
        (Act::Reset, "retry"),
        (Act::Silence, "retry"),
        (Act::line("550-5.1.1 no such user\r\n250 ok"), "retry"),
        (Act::line("what?"), "retry"),
        (Act::line("354 go on"), "retry"),
        (Act::line("250 ok\r\n250 ok"), "retry"),
    ] {
        let server = Server::start(Script::new().where_line_has("TO:<bad", act));
        let (_folder, mut sending) = start(&server, "timeout_seconds = 2");
        // So that none is given back meanwhile.
        sending.forget("untried");
        let verdicts =
            sending.verdicts("b", &[(1, "bad@x.test"), (2, "ada@x.test"), (3, "bob@x.test")]);
        let kinds: Vec<_> = verdicts.iter().map(|verdict| verdict.kind.as_str()).collect();
        assert_eq!(kinds, [expected, "ok", "ok"], "{verdicts:?}");
        sending.finish();
    }
}

#[test]
fn a_server_that_is_silent_over_everybody_is_away() {
    for act in [Act::Silence, Act::close("")] {
        let server = Server::start(Script::new().at("RCPT", act));
        let (_folder, mut sending) = start(&server, "timeout_seconds = 1");
        let emails = ["a@x.test", "b@x.test", "a@y.test", "a@z.test", "a@x.test", "a@x.test"];
        let kinds: Vec<_> =
            (1..).zip(emails).map(|(id, email)| sending.verdict(id, email).kind).collect();
        // The fifth is a trial, since it may have been those of the others.
        assert_eq!(kinds, ["retry", "retry", "retry", "unavailable", "retry", "unavailable"]);
        sending.finish();
    }
}

#[test]
fn a_mail_that_a_server_cannot_take_harms_no_other() {
    let no_utf8 = || Script::new().at("EHLO", Act::line("250-mx\r\n250 8BITMIME"));
    for (script, email, expected) in [
        (no_utf8(), "j\u{f6}s@example.org", "dead"),
        (no_utf8(), "ada@b\u{fc}cher.example", "ok"),
        (Script::new(), "j\u{f6}s@example.org", "ok"),
        (
            Script::new().where_line_has("SMTPUTF8", Act::line("555 5.5.4 unsupported")),
            "j\u{f6}s@x.test",
            "retry",
        ),
        (
            Script::new().where_line_has("SMTPUTF8", Act::line("555 5.5.4 unsupported")),
            "ada@x.test",
            "ok",
        ),
        (
            Script::new().at("MAIL", Act::line("555 5.5.4 unsupported parameter SMTPUTF8")),
            "ada@x.test",
            "retry",
        ),
        (Script::new().at("MAIL", Act::line("552 5.3.4 too big")), "ada@x.test", "unavailable"),
        (Script::new().at("EHLO", Act::line("250-mx\r\n250 SIZE 100")), "ada@x.test", "retry"),
        (Script::new().at("end", Act::line("552 5.3.4 too big")), "ada@x.test", "retry"),
    ] {
        let server = Server::start(script);
        let verdict = verdict_with(&server, "", email);
        assert_eq!(verdict.kind, expected, "{email}: {verdict:?}");
    }
}

#[test]
fn refusals_alike_for_three_domains_are_given_back_until_a_mail_is_accepted() {
    let script = Script::new().at("RCPT", Act::line("554 5.7.1 no thanks"));
    let server = Server::start(script.where_line_has("TO:<good", Act::line("250 ok")));
    let (_folder, mut sending) = start(&server, "");
    for (id, email, expected) in [
        (1, "a@a.test", "retry"),
        (2, "a@b.test", "retry"),
        (3, "b@b.test", "retry"),
        (4, "a@c.test", "unavailable"),
        (5, "good@d.test", "ok"),
        (6, "a@a.test", "dead"),
        (7, "a@e.test", "dead"),
    ] {
        let verdict = sending.verdict(id, email);
        assert_eq!(verdict.kind, expected, "{email}: {verdict:?}");
        assert!(
            expected != "retry" || verdict.after.is_some_and(|after| after <= 15_000),
            "{verdict:?}"
        );
    }
    sending.finish();
}

#[test]
fn what_a_server_says_to_everybody_kills_nobodys_mail() {
    for (verb, line) in [
        ("RCPT", "554 5.7.1 <ada@example.org>: Recipient address rejected: Access denied"),
        ("RCPT", "550 Domain x.test has an outgoing mail suspension"),
        ("RCPT", "550 Versandlimit erreicht"),
        ("RCPT", "550 5.1.1 <us@x.test>: user unknown"),
        ("MAIL", "552 Requested mail action aborted: exceeded storage allocation"),
        ("EHLO", "250-mx\r\n250 SIZE 1000"),
        ("end", "550 5.4.6 Unusual sending activity detected"),
        ("end", "552 Insufficient system storage"),
    ] {
        let server = Server::start(Script::new().at(verb, Act::line(line)));
        let (_folder, mut sending) = start(&server, "");
        let kinds: Vec<_> =
            (1..=6).map(|id| sending.verdict(id, &format!("a@{id}.test")).kind).collect();
        assert!(kinds.iter().all(|kind| kind != "dead"), "{line}: {kinds:?}");
        assert!(kinds.iter().any(|kind| kind == "unavailable"), "{line}: {kinds:?}");
        sending.finish();
    }
}

/// The mails of others behind those that a stranger had made, beside a server that refuses the
/// stranger's with these words or says nothing. What becomes of one of them in the end.
fn campaign(act: Act, addresses: i64) -> String {
    let server = Server::start(Script::new().where_line_has("TO:<bad", act));
    let (_folder, mut sending) = start(&server, "");
    let emails: Vec<_> = (0..addresses).map(|n| format!("bad@{n}.test")).collect();
    // As the collector does after a circuit that opened: what was given back comes first.
    let mut waiting: Vec<_> = (0..).zip(emails.iter().map(String::as_str)).collect();
    waiting.push((addresses, "good@x.test"));
    let mut openings = 0;
    for batch in 0.. {
        let (now, later) = waiting.split_at(waiting.len().min(100));
        let verdicts = sending.verdicts(&batch.to_string(), now);
        if verdicts.last().is_some_and(|verdict| verdict.kind == "ok") {
            break;
        }
        let is_back = |kind: &str| kind == "unavailable";
        openings += usize::from(verdicts.iter().any(|verdict| is_back(&verdict.kind)));
        // Each costs the others a pause, of ten seconds at last.
        assert!(openings <= 2, "{}", verdicts[0].reason);
        let given_back = now.iter().zip(&verdicts).filter(|(_, verdict)| is_back(&verdict.kind));
        waiting = given_back.map(|(item, _)| *item).chain(later.iter().copied()).collect();
    }
    let verdict = sending.verdict(2 * addresses, "bad@1.test");
    sending.finish();
    verdict.kind
}

#[test]
fn a_thousand_addresses_of_a_stranger_delay_others_by_less_than_ten_seconds() {
    for (line, expected) in [
        ("554 5.7.1 no", "dead"),
        ("550 5.1.1 <>: User unknown in relay recipient table", "dead"),
        ("550 Unrouteable address", "dead"),
        ("554 5.7.1 <>: Relay access denied", "retry"),
        ("454 4.7.1 <>: Relay access denied", "retry"),
        ("550 5.4.5 Daily sending quota exceeded for this domain", "retry"),
        ("553 sorry, that domain isn't in my list of allowed rcpthosts (#5.7.1)", "retry"),
    ] {
        assert_eq!(campaign(Act::line(line), 1_000), expected, "{line}");
    }
}

#[test]
fn addresses_of_a_stranger_over_which_a_server_closes_the_connection_are_nobody_elses_outage() {
    assert_eq!(campaign(Act::close(""), 300), "retry");
}

#[test]
fn silence_about_the_recipients_of_a_domain_holds_up_no_other_mail() {
    let silent = Script::new().where_line_has("@dead.test>", Act::Silence);
    let server = Server::start(silent);
    let (_folder, mut sending) = start(&server, "timeout_seconds = 8");
    // So that none is given back meanwhile.
    sending.forget("untried");
    let people = [(1, "a@dead.test"), (2, "b@dead.test"), (3, "c@dead.test"), (4, "ada@x.test")];
    let verdicts = sending.verdicts("b", &people);
    let kinds: Vec<_> = verdicts.iter().map(|verdict| verdict.kind.as_str()).collect();
    assert_eq!(kinds, ["retry", "retry", "retry", "ok"], "{verdicts:?}");
    sending.finish();
    let tried = server.commands("RCPT");
    assert!(tried.len() == 4 && tried[1].contains("ada@x.test"), "{tried:?}");
}

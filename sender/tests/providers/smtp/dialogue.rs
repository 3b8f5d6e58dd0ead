//! What is said to a server, and how its odd answers are read.

use super::server::{Act, Login, Script, Server};
use super::{LOGIN, start, verdict, verdict_with};

#[test]
fn an_accepted_mail_is_sent_however_the_server_spells_it() {
    let gbk = [&b"250 2.0.0 "[..], b"\xba\xc3", b"\r\n"].concat();
    let long = format!("250-{}\r\n250 ok", "x".repeat(8_000));
    for script in [
        Script::new().at("end", Act::Say(gbk)),
        Script::new().at("end", Act::line("250")),
        Script::new().at("end", Act::line("250-\r\n250")),
        Script::new().at("end", Act::say("250 ok\n")),
        Script::new().at("end", Act::line("251 ok")),
        Script::new().at("end", Act::line("200 ok")),
        Script::new().at("end", Act::line(&long)),
        Script::new().at("end", Act::line("250 ok\r\n421 too many mails")),
        Script::new().at("end", Act::close("250 2.0.0 que")),
        Script::new().at("end", Act::close("250 2.0.0 ok\r\n")),
        Script::new().at("end", Act::Say([b"250 ".to_vec(), vec![b'x'; 1 << 20]].concat())),
    ] {
        let server = Server::start(script);
        let verdict = verdict(&server);
        assert_eq!(
            (verdict.kind.as_str(), server.heard().contents.len()),
            ("ok", 1),
            "{verdict:?}"
        );
    }
}

#[test]
fn odd_answers_on_the_way_are_read() {
    let greeting = [&b"220 mx.x.test "[..], b"\xc4\xe3", b"\r\n"].concat();
    let lf = |script: Script, verb, text: &str| script.at(verb, Act::say(&format!("{text}\n")));
    let mut lf_only = lf(Script::new(), "greeting", "220 mx");
    for (verb, text) in [
        ("EHLO", "250-mx\n250 8BITMIME"),
        ("MAIL", "250 ok"),
        ("RCPT", "250 ok"),
        ("DATA", "354"),
        ("end", "250 ok"),
    ] {
        lf_only = lf(lf_only, verb, text);
    }
    for script in [
        Script::new().at("greeting", Act::Say(greeting)),
        Script::new().at("greeting", Act::line("220")),
        Script::new().at("greeting", Act::line("220-mx\r\n220-we do not authorise bulk\r\n220")),
        Script::new().at("MAIL", Act::line("250")).at("RCPT", Act::line("250")),
        Script::new().at("RCPT", Act::line("252 2.1.5 cannot verify, will try")),
        Script::new().at("RCPT", Act::line("251 will forward")),
        Script::new().at("DATA", Act::line("354")),
        Script::new().at("EHLO", Act::line("250 mx")),
        Script::new().at("EHLO", Act::line("502 5.5.1 not implemented")),
        Script::new().at("EHLO", Act::line("500")),
        Script::new().at("EHLO", Act::line("550 5.5.1 no such command")),
        Script::new().at("EHLO", Act::line("503 5.5.1 bad sequence")),
        Script::new().at("EHLO", Act::close("")),
        // A proxy that greets before the server does, at once or late.
        Script::new().at("greeting", Act::line("220 proxy\r\n220 mx ready")),
        Script::new().at("EHLO", Act::line("220 mx ready\r\n250 mx")),
        Script::new().at("MAIL", Act::line("250 ok\r\n")).at("RCPT", Act::line("250 ok\r\n")),
        lf_only,
    ] {
        let server = Server::start(script);
        let verdict = verdict(&server);
        assert_eq!(
            (verdict.kind.as_str(), server.heard().contents.len()),
            ("ok", 1),
            "{verdict:?}"
        );
    }
}

#[test]
fn a_server_that_says_no_in_its_greeting_takes_no_mails() {
    for (script, expected) in [
        (
            Script::new().at("greeting", Act::line("220-mx one moment\r\n521 mx takes no mail")),
            "521 mx one moment",
        ),
        (
            Script::new().at("greeting", Act::close("554 5.7.1 no service for you\r\n")),
            "554 5.7.1 no service",
        ),
        (Script::new().at("greeting", Act::close("421 busy\r\n")), "421 busy"),
        (Script::new().at("EHLO", Act::line("450 4.7.1 <x>: Helo command rejected")), "450 4.7.1"),
        (Script::new().at("EHLO", Act::close("421 4.7.0 Try again later\r\n")), "421 4.7.0"),
        (Script::new().at("EHLO", Act::line("550 go")).at("HELO", Act::line("550 no")), "550 go"),
        (Script::new().at("EHLO", Act::close("")).at("HELO", Act::line("550 no")), "EHLO"),
    ] {
        let server = Server::start(script);
        let verdict = verdict(&server);
        assert!(verdict.kind == "unavailable" && verdict.reason.contains(expected), "{verdict:?}");
    }
}

#[test]
fn a_server_that_takes_its_time_over_each_step_gets_mails() {
    // Together they take longer than the limit, and each of connection and mail takes half of it.
    let script =
        Script::new().at("greeting", Act::late(33, "220 mx")).at("RCPT", Act::late(33, "250 ok"));
    let server = Server::start(script);
    let verdict = verdict_with(&server, "timeout_seconds = 65", "ada@example.org");
    assert_eq!(verdict.kind, "ok", "{verdict:?}");
}

#[test]
fn a_login_is_tried_by_each_mechanism_that_is_offered_and_known() {
    let ehlo = |line: &str| Script::new().at("EHLO", Act::line(&format!("250-mx\r\n250 {line}")));
    let usual = Login::Prompts("VXNlcm5hbWU6", "UGFzc3dvcmQ6");
    for script in [
        ehlo("AUTH LOGIN").login(usual),
        ehlo("auth plain login").login(usual),
        ehlo("AUTH=LOGIN").login(usual),
        ehlo("AUTH LOGIN").login(Login::Prompts("SWRlbnRpdHk=", "")),
        // PLAIN is refused.
        ehlo("AUTH PLAIN LOGIN").login(usual),
        ehlo("AUTH PLAIN").login(Login::PlainAfterPrompt),
    ] {
        let server = Server::start(script);
        let verdict = verdict_with(&server, LOGIN, "ada@example.org");
        assert_eq!(
            (verdict.kind.as_str(), server.heard().contents.len()),
            ("ok", 1),
            "{verdict:?}"
        );
    }
    for (script, expected) in [
        (
            ehlo("AUTH CRAM-MD5 XOAUTH2"),
            "by CRAM-MD5 XOAUTH2 only, and PLAIN and LOGIN are supported",
        ),
        (ehlo("SIZE 1"), "offers no login"),
        (ehlo("AUTH LOGIN").login(Login::Endless), "the login is refused: 334"),
        (
            ehlo("AUTH PLAIN").at("AUTH", Act::line("535 5.7.8 a-key is wrong")),
            "535 5.7.8 [secret] is wrong",
        ),
        (
            ehlo("AUTH PLAIN LOGIN").at("AUTH", Act::close("421 4.7.0 too many\r\n")),
            "421 4.7.0 too many",
        ),
    ] {
        let server = Server::start(script);
        let verdict = verdict_with(&server, LOGIN, "ada@example.org");
        assert!(verdict.kind == "unavailable" && verdict.reason.contains(expected), "{verdict:?}");
    }
}

#[test]
fn a_notice_of_failure_is_asked_for_that_repeats_the_address() {
    let dsn = || Script::new().at("EHLO", Act::line("250-mx\r\n250-dsn\r\n250 SMTPUTF8"));
    let server = Server::start(dsn());
    let (_folder, mut sending) = start(&server, "");
    assert_eq!(sending.verdict(1, "a+b=c@example.org").kind, "ok");
    assert_eq!(sending.verdict(2, "j\u{f6}s@example.org").kind, "ok");
    sending.finish();
    assert_eq!(
        server.commands("RCPT"),
        [
            "RCPT TO:<a+b=c@example.org> NOTIFY=FAILURE ORCPT=rfc822;a+2Bb+3Dc@example.org",
            "RCPT TO:<j\u{f6}s@example.org> NOTIFY=FAILURE ORCPT=utf-8;j\\x{F6}s@example.org",
        ]
    );
    let mails = server.commands("MAIL");
    assert!(
        mails[0].ends_with("> RET=HDRS") && mails[1].contains(" SMTPUTF8 RET=HDRS"),
        "{mails:?}"
    );
    // A server that does not know what it offers.
    for (verb, part) in [("MAIL", "RET="), ("RCPT", "ORCPT=")] {
        let server =
            Server::start(dsn().where_line_has(part, Act::line("501 5.5.4 what is that?")));
        let verdict = verdict(&server);
        assert!(verdict.kind == "ok" && !server.commands(verb)[1].contains(part), "{verdict:?}");
    }
}

#[test]
fn a_server_is_greeted_by_a_name_of_this_machine_or_of_the_connection() {
    let server = Server::start(Script::new());
    assert_eq!(verdict(&server).kind, "ok");
    let said = server.commands("EHLO").remove(0);
    let is_name = said.contains('.') && !said.contains("localhost");
    assert!(said == "EHLO [127.0.0.1]" || is_name && !said.contains('['), "{said}");
}

#[test]
fn a_connection_is_used_again_and_ends_with_quit() {
    let server =
        Server::start(Script::new().where_line_has("bad@", Act::line("550 5.1.1 no such user")));
    let (_folder, mut sending) = start(&server, "mails_per_connection = 3");
    for (id, email) in [(1, "a@x.test"), (2, "bad@x.test"), (3, "b@x.test"), (4, "c@x.test")] {
        let verdict = sending.verdict(id, email);
        assert_eq!(
            verdict.kind,
            if email.starts_with("bad") { "dead" } else { "ok" },
            "{verdict:?}"
        );
    }
    sending.finish();
    let heard = server.heard();
    let verbs: Vec<_> = heard.lines.iter().map(|(number, line)| (*number, &line[..4])).collect();
    let expected = [
        "0 EHLO", "0 MAIL", "0 RCPT", "0 DATA", "0 MAIL", "0 RCPT", "0 RSET", "0 MAIL", "0 RCPT",
        "0 DATA", "0 QUIT", "1 EHLO", "1 MAIL", "1 RCPT", "1 DATA", "1 QUIT",
    ];
    assert_eq!(
        verbs.iter().map(|(number, verb)| format!("{number} {verb}")).collect::<Vec<_>>(),
        expected
    );
}

#[test]
fn a_connection_that_ended_between_two_mails_is_opened_anew() {
    for script in [
        Script::new().at("end", Act::close("250 2.0.0 queued\r\n")),
        Script::new().at("end", Act::close("250 2.0.0 queued\r\n421 idle\r\n")),
        Script::new()
            .at("end", Act::line("421-x\r\n250 no").clone())
            .at("end", Act::close("250 ok\r\n")),
    ] {
        let server = Server::start(script);
        let (_folder, mut sending) = start(&server, "");
        for id in 1..4 {
            assert_eq!(sending.verdict(id, "ada@example.org").kind, "ok");
        }
        sending.finish();
        assert_eq!(server.heard().contents.len(), 3);
    }
    // A server that knows no RSET, or never answers it.
    for (act, further) in [
        (Act::line("502 5.5.1 not implemented"), ""),
        (Act::Silence, ""),
        (Act::Silence, "timeout_seconds = 6"),
    ] {
        let script = Script::new().at("RSET", act);
        let server =
            Server::start(script.where_line_has("bad@", Act::line("450 4.2.0 greylisted")));
        let (_folder, mut sending) = start(&server, further);
        assert_eq!(sending.verdict(1, "bad@x.test").kind, "retry");
        assert_eq!(sending.verdict(2, "ada@x.test").kind, "ok");
        sending.finish();
    }
}

#[test]
fn a_connection_that_takes_no_further_mail_is_opened_anew_at_every_step() {
    for verb in ["MAIL", "RCPT", "DATA", "end"] {
        for text in ["421 4.7.0 closing\r\n", "452 4.5.3 too many mails in this session\r\n"] {
            let server = Server::start(Script::new().after_a_mail(verb, Act::close(text)));
            let (configuration, mut sending) = start(&server, "");
            for id in 1..=3 {
                let verdict = sending.verdict(id, &format!("ada@{id}.test"));
                assert_eq!(verdict.kind, "ok", "{verb} {text} {verdict:?}");
            }
            sending.finish();
            // What was refused at the end is known not to be accepted: nothing is left in doubt.
            let mut sending = crate::sending::Sending::start(&configuration);
            assert_eq!(sending.verdict(3, "ada@3.test").kind, "ok");
            sending.finish();
            assert_eq!(server.commands("EHLO").len(), 3, "{verb}");
        }
    }
    // A new one that fares like the last is not followed by another.
    let server = Server::start(Script::new().where_line_has("bad@", Act::close("421 no\r\n")));
    let (_folder, mut sending) = start(&server, "");
    assert_eq!(sending.verdict(1, "ada@x.test").kind, "ok");
    assert_eq!(sending.verdict(2, "bad@x.test").kind, "unavailable");
    sending.finish();
    assert_eq!(server.commands("RCPT").len(), 3);
}

#[test]
fn no_line_of_the_content_ends_it() {
    let server = Server::start(Script::new());
    assert_eq!(verdict(&server).kind, "ok");
    let heard = server.heard();
    assert!(
        heard.contents[0].contains("\nAuto-Submitted: auto-generated\n"),
        "{:?}",
        heard.contents
    );
    assert!(heard.lines.iter().all(|(_, line)| !line.is_empty()), "{:?}", heard.lines);
}

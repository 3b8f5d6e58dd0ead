//! Servers that want to harm, or are broken beyond use.

use std::fs;
use std::time::{Duration, Instant};

use super::server::{Act, Script, Server};
use super::{verdict, verdict_with};

const SHORT: &str = "timeout_seconds = 2\nfinal_timeout_seconds = 2";

/// Every step before the final dot.
const STEPS: [&str; 5] = ["greeting", "EHLO", "MAIL", "RCPT", "DATA"];

fn kibibytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn no_server_takes_the_memory() {
    let before = kibibytes();
    for verb in STEPS.into_iter().chain(["end"]) {
        for bytes in
            [&b"220 aaaaaaaaaaaaaaaa"[..], b"220-a\r\n", b"\0\0\0\0", b"\r\n", b"250-X\r\n"]
        {
            let server = Server::start(Script::new().at(verb, Act::Flood(bytes.repeat(1_000))));
            let verdict = verdict_with(&server, SHORT, "ada@example.org");
            assert!(
                ["unavailable", "retry", "in_doubt", "ok"].contains(&verdict.kind.as_str()),
                "{verb}: {verdict:?}"
            );
        }
    }
    let server = Server::start(
        Script::new().at("greeting", Act::Say([b"220 ".to_vec(), vec![b'a'; 1 << 20]].concat())),
    );
    assert_eq!(verdict_with(&server, SHORT, "ada@example.org").kind, "unavailable");
    let grown = kibibytes() - before;
    assert!(grown < 64 * 1_024, "{grown} KiB");
}

#[test]
fn no_server_takes_more_than_its_time() {
    for verb in STEPS {
        for act in [
            Act::Silence,
            Act::Drip(b"220-a\r\n".repeat(100)),
            Act::Drip(b"250 aaaaaaaaaaaaaaaaaaaaaa".to_vec()),
        ] {
            let server = Server::start(Script::new().at(verb, act));
            let start = Instant::now();
            let verdict = verdict_with(&server, SHORT, "ada@example.org");
            assert!(
                ["unavailable", "retry", "ok"].contains(&verdict.kind.as_str()),
                "{verb}: {verdict:?}"
            );
            // The limit, once for the dialogue, and the content's.
            assert!(start.elapsed() < Duration::from_secs(240), "{verb}: {:?}", start.elapsed());
        }
    }
}

#[test]
fn what_is_broken_at_a_step_before_the_final_dot_certainly_was_not_accepted() {
    for verb in STEPS {
        for act in [
            Act::close(""),
            Act::close("2"),
            Act::close("250-more"),
            Act::Reset,
            Act::line("hello"),
            Act::line("\0\0\0"),
            Act::line("199 odd"),
            Act::line("999 odd"),
            Act::say("\u{16}\u{3}\u{1}\r\n"),
            Act::line("421 closing"),
            Act::line("221 closing"),
            Act::line("214 help"),
            Act::line("334 dXNlcm5hbWU6"),
        ] {
            // HELO is the other way to say EHLO.
            let other = if verb == "EHLO" { "HELO" } else { verb };
            let server = Server::start(Script::new().at(other, act.clone()).at(verb, act));
            let verdict = verdict(&server);
            let expected = if ["RCPT", "DATA"].contains(&verb) { "retry" } else { "unavailable" };
            let is_expected = verdict.kind == expected || verdict.reason.contains("421 closing");
            assert!(is_expected, "{verb}: {verdict:?}");
            assert!(server.heard().contents.is_empty());
        }
    }
}

#[test]
fn a_reply_that_comes_before_its_command_is_believed_of_none() {
    for (verb, text) in [
        ("greeting", "220 mx\r\n250 mx"),
        ("EHLO", "250 mx\r\n250 sender ok\r\n250 recipient ok"),
        ("MAIL", "250 ok\r\n250 ok\r\n354 go\r\n250 accepted"),
        ("MAIL", "354 go on"),
        ("RCPT", "250 ok\r\n354 go\r\n250 accepted"),
        ("DATA", "354 go\r\n250 accepted"),
        ("DATA", "250 accepted"),
    ] {
        let server = Server::start(Script::new().at(verb, Act::line(text)));
        let verdict = verdict(&server);
        assert!(["unavailable", "retry"].contains(&verdict.kind.as_str()), "{verb}: {verdict:?}");
        assert!(server.heard().contents.is_empty(), "{verb}");
    }
    // While the content is on its way: a refusal is one, an acceptance is none.
    for (act, expected) in [
        (Act::line("250 accepted"), "retry"),
        (Act::close("421 closing\r\n"), "unavailable"),
        (Act::close(""), "retry"),
    ] {
        let server = Server::start(Script::new().at("content", act));
        let verdict = verdict(&server);
        let is_late = server.heard().contents.len() == 1;
        // It may also come when the end is on its way: then nobody can know.
        let is_known = verdict.kind != "in_doubt";
        assert!(verdict.kind == expected || is_late || !is_known, "{verdict:?}");
        assert!(verdict.kind != "ok" || is_late, "{verdict:?}");
    }
}

#[test]
fn a_lost_answer_to_the_final_dot_leaves_doubt() {
    for act in [
        Act::close(""),
        Act::close("2"),
        Act::close("250-"),
        Act::Reset,
        Act::Silence,
        Act::line("accepted"),
        Act::line("354 more"),
        Act::line("550-no\r\n250 yes"),
        // What is said to other commands: a second greeting, a farewell, help, a login.
        Act::line("220 mx.x.test ESMTP"),
        Act::line("221 2.0.0 closing"),
        Act::close("221 2.0.0 closing\r\n"),
        Act::line("211 status"),
        Act::line("214 help"),
        Act::line("235 2.7.0 logged in"),
    ] {
        let server = Server::start(Script::new().at("end", act));
        let verdict = verdict_with(&server, "final_timeout_seconds = 2", "ada@example.org");
        assert!(
            verdict.kind == "in_doubt" && verdict.reason.contains("the content"),
            "{verdict:?}"
        );
        assert_eq!(server.heard().contents.len(), 1);
    }
}

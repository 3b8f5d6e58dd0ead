//! Mails that are not waited for because others need the connections: that is the sender's doing,
//! and says nothing of the server.

use std::thread;
use std::time::{Duration, Instant};

use super::server::{Act, Script, Server};
use super::start;
use crate::sending::{PATIENCE, Sending};

/// Waits until the server has heard so many contents.
fn await_contents(server: &Server, count: usize) {
    let start = Instant::now();
    while server.heard().contents.len() < count {
        assert!(start.elapsed() < PATIENCE, "{} contents", server.heard().contents.len());
        thread::sleep(Duration::from_millis(20));
    }
}

/// Gives the sender a mail until it is sent. Returns how often it was in doubt.
fn insist(sending: &mut Sending, id: i64, email: &str) -> usize {
    let (start, mut doubts) = (Instant::now(), 0);
    loop {
        let verdict = sending.verdict(id, email);
        match verdict.kind.as_str() {
            "ok" => return doubts,
            "in_doubt" => doubts += 1,
            _ => thread::sleep(Duration::from_millis(200)),
        }
        assert!(doubts < 3 && start.elapsed() < PATIENCE, "{verdict:?}");
    }
}

#[test]
fn recipients_that_are_not_waited_for_do_not_make_the_server_silent() {
    let script = Script::new()
        .where_line_has("TO:<mute", Act::Silence)
        .where_line_has("TO:<slow", Act::late(4, "450 4.1.1 unverified address"));
    let server = Server::start(script);
    let (_folder, mut sending) = start(&server, "timeout_seconds = 100");
    // The server answers others at once, and the one recipient that may take long has begun.
    assert_eq!(sending.verdict(1, "ada@x.test").kind, "ok");
    sending.write("mute", &[(2, "mute@mute.test")]);
    for id in 10..16 {
        let verdict = sending.verdict(id, &format!("slow@d{id}.test"));
        assert!(["retry", "untried"].contains(&verdict.kind.as_str()), "{verdict:?}");
        if verdict.reason.contains("others need") {
            let is_short = verdict.after.is_some_and(|after| after <= 60_000);
            assert!(is_short && verdict.kind == "untried", "{verdict:?}");
        }
    }
    assert_eq!(sending.verdict(3, "ada@x.test").kind, "ok");
}

#[test]
fn a_content_that_is_not_waited_for_makes_one_copy_too_many_and_no_dead_letter() {
    let script = Script::new()
        .where_line_has("\nTo: silent", Act::Silence)
        .where_line_has("\nTo: late", Act::late(6, "250 2.0.0 ok"));
    let server = Server::start(script);
    let (_folder, mut sending) = start(&server, "");
    assert_eq!(sending.verdict(1, "ada@x.test").kind, "ok");
    // As many contents wait for their answers as may.
    for id in 2..5 {
        sending.write(&id.to_string(), &[(id, &format!("silent@d{id}.test"))]);
        await_contents(&server, usize::try_from(id).unwrap());
    }
    assert_eq!(insist(&mut sending, 5, "bob@x.test"), 0);
    let doubts = insist(&mut sending, 6, "late@late.test");
    assert!(doubts <= 1, "{doubts}");
    let contents = server.heard().contents;
    let copies = contents.iter().filter(|content| content.contains("\nTo: late")).count();
    assert_eq!(copies, doubts + 1);
}

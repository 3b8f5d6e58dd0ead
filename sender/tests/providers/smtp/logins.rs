//! Logins that a server refuses.

use super::LOGIN;
use super::server::{Act, Script, Server};
use crate::sending::{Configuration, Sending};

fn table(server: &Server) -> String {
    format!(
        "[smtp]\nserver = \"127.0.0.1\"\nport = {}\ntls = \"none\"\nconnections = 8\n{LOGIN}\n",
        server.port
    )
}

#[test]
fn a_login_that_is_refused_is_tried_once_by_a_process_until_a_minute_has_passed() {
    let offers = Act::line("250-mx.x.test\r\n250 AUTH PLAIN");
    let server = |reply| {
        Server::start(Script::new().at("EHLO", offers.clone()).at("AUTH", Act::line(reply)))
    };
    let refusing = server("535 5.7.8 no");
    let configuration = Configuration::new("", &table(&refusing));
    for process in 1..=2 {
        let mut sending = Sending::start(&configuration);
        for _ in 0..5 {
            let people: Vec<_> = (1..=20).map(|id| (id, "ada@x.test")).collect();
            for verdict in sending.verdicts("b", &people) {
                let is_told = verdict.after.is_some_and(|after| (1..=60_000).contains(&after));
                assert!(verdict.kind == "unavailable" && is_told, "{verdict:?}");
                assert!(!verdict.reason.contains("a-key"), "{verdict:?}");
            }
        }
        sending.finish();
        assert_eq!(refusing.commands("AUTH").len(), process);
    }
    // After a change of the configuration it is tried at once.
    let taking = server("235 ok");
    configuration.write("", &table(&taking));
    let mut sending = Sending::start(&configuration);
    assert_eq!(sending.verdict(1, "ada@x.test").kind, "ok");
    sending.finish();
}

//! Many bad addresses, which somebody may have given on purpose: others' mails do not wait for
//! them.

use super::server::{Act, Script, Server};
use super::start;

/// How many addresses somebody has given.
const MANY: i64 = 1_000;

#[test]
fn a_server_that_slows_down_whoever_makes_errors_holds_up_nobody() {
    let refusal = Act::line("550 5.1.1 User unknown in virtual mailbox table");
    let script = Script::new().counting_errors().where_line_has("TO:<bad", refusal);
    let server = Server::start(script);
    let (_folder, mut sending) = start(&server, "");
    // So that a busy machine has none given back meanwhile.
    sending.forget("untried");
    let bad: Vec<_> = (1..=MANY).map(|id| (id, format!("bad{id}@d.test"))).collect();
    let mut people: Vec<_> = bad.iter().map(|(id, email)| (*id, email.as_str())).collect();
    people.push((MANY + 1, "ada@x.test"));
    let verdicts = sending.verdicts("campaign", &people);
    let count = |kind| verdicts.iter().filter(|verdict| verdict.kind == kind).count();
    // So many in a row may be everybody's, and are not dead at once.
    assert_eq!((count("dead"), count("retry"), count("ok")), (9, people.len() - 10, 1));
    // Ten errors on each connection, and a second for each further one.
    assert_eq!(server.heard().late, 0);
    sending.finish();
}

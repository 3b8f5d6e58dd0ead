//! Refusals of us, of a mail and for now that sound like an address that nobody has, and the other
//! way round.

use super::*;

pub(super) const SENDER: &str = "bounces+0864bac4fdf5158c59e62c4f49f76d16@example.org";

pub(super) const STATUSES: [&str; 6] = ["5.0.0", "5.1.1", "5.1.2", "5.1.3", "5.5.0", ""];

fn at(step: Step, status: &str, answer: &str) -> bool {
    is_gone(&Said { status, answer, recipient: "ada@x.test", sender: SENDER, step })
}

pub(super) fn gone(status: &str, answer: &str) -> bool {
    at(Step::Recipient, status, answer)
}

#[test]
fn the_step_is_read_where_servers_name_it_however_they_wrap_the_line() {
    for text in [
        "host mx.x.test[192.0.2.9] said: 550 Host unknown (in reply to MAIL FROM command)",
        "said: 553 **mybox.x.test** does not exist (in\n    reply to MAIL\n  FROM command)",
        "host mx.x.test refused to talk to me: 550 Host not found",
        "550 unknown user (in reply to EHLO command)",
        "550 unknown user (in reply to HELO command)",
        "550 5.1.2 Domain not found (in reply to MAIL FROM)",
        "... while talking to mx.x.test.:\n>>> MAIL From:<us@example.org>\n<<< 550 Host unknown",
        "... while talking to mx.x.test.:\n>>> EHLO mail.example.org\n<<< 550 Host unknown",
        ">>> HELO mail.example.org\n<<< 550 unknown host",
        "--> MAIL From:<us@example.org>\n<-- 550 Domain does not exist",
        "SMTP error from remote mail server after MAIL FROM:<us@example.org>:\n host mx: 550 no",
        "SMTP error from remote mail server after pipelined MAIL FROM:<us@example.org> SIZE=3:",
        "SMTP error from remote mail server after EHLO mail.example.org:\n 550 unknown host",
        "SMTP error from remote mail server after initial connection:\n 550 unknown host",
        "Connected to 192.0.2.1 but my name was rejected.\nRemote host said: 550 Host unknown",
        "Connected to 192.0.2.1 but greeting failed.",
        "Connected to 192.0.2.1 but sender was rejected.",
        "mx.x.test [192.0.2.1] did not like our MAIL FROM:\n550 no such domain",
        "The response to the MAIL command was: 550 user unknown",
        "Command: MAIL FROM:<us@example.org>\nResponse: 550 user unknown",
        "There was an error in MAIL FROM: 550 user unknown",
        "SMTP-Fehler nach MAIL FROM:<us@example.org>: 550 unknown user",
        "Reason: mail server rejected our HELO: 550 Host unknown",
    ] {
        assert_eq!(Step::of(text), Step::Sender, "{text}");
    }
    for text in [
        "550 no such user (in reply\n to end of DATA command)",
        "SMTP error from remote mail server after end of data:",
        "SMTP error from remote mail server after pipelined end of data:",
        ">>> DATA\n<<< 550 no",
        "192.0.2.1 failed after I sent the message.",
        "mx.x.test did not like our final DATA:\n550 no",
        "rejected at DATA: 550 user unknown",
    ] {
        assert_eq!(Step::of(text), Step::Content, "{text}");
    }
    for text in [
        "",
        "550 5.1.1 no such user (in reply to RCPT TO command)",
        ">>> RCPT To:<ada@x.test>\n<<< 550 no such user",
        "SMTP error from remote mail server after RCPT TO:<ada@x.test>:",
        "mx.x.test did not like our RCPT TO:\n550 no such user",
        "192.0.2.1 does not like recipient.",
        "The database was read after datacenter maintenance",
    ] {
        assert_eq!(Step::of(text), Step::Recipient, "{text}");
    }
}

#[test]
fn whoever_refused_the_sender_or_its_machine_says_nothing_of_the_recipient() {
    for status in STATUSES {
        for answer in [
            "smtp; 550 Host unknown",
            "smtp; 550 5.1.2 Domain not found",
            "smtp; 550 5.1.1 unknown user",
            "smtp; 553 **mybox.dslhost.test** does not exist",
            "smtp; 550 5.1.1 <ada@x.test>: User unknown",
            "",
        ] {
            assert!(!at(Step::Sender, status, answer), "{status} {answer}");
        }
        // Without a step: what the words name.
        for answer in [
            "smtp; 550 unknown user bounces+0864bac4fdf5158c59e62c4f49f76d16@example.org",
            "smtp; 550 5.1.1 bounces+0864bac4fdf5158c59e62c4f49f76d16@example.org: user unknown",
            "smtp; 550 5.1.1 BOUNCES@Example.ORG... User unknown",
            "smtp; 550 Callback verification failed: us@example.org: user unknown",
            "smtp; 550 No such domain example.org",
            "smtp; 550 No such host: mail.example.org",
            "smtp; 553 domain example.org does not exist",
            "smtp; 550 5.1.2 domain example.org. not found",
            "smtp; 550 example.org: unknown domain",
            "smtp; 550 Domain example.org has no MX or A record: does not exist",
            "smtp; 550 5.1.1 The domain 'example.org' of the mailbox does not exist",
            "smtp; 550 no such record for example.org",
            "smtp; 550 Return address unknown",
            "smtp; 550 5.1.1 Reverse path: unknown user",
            "smtp; 550 Envelope from does not exist",
            "smtp; 550 originator address unknown",
            "smtp; 550 Sending host does not exist",
            "smtp; 550 unknown client host",
            "smtp; 550 your address is unknown to us",
            "smtp; 550 you are not our customer",
            "smtp; 550 5.1.1 You are not our user",
            "smtp; 550 server address not found",
            "smtp; 550 Absenderadresse unbekannt",
            "smtp; 550 Unbekannter Absender",
            "smtp; 550 5.1.1 Adresse de l'exp\u{e9}diteur inconnue",
            "smtp; 550 dominio del remitente no existe",
            "smtp; 550 indirizzo del mittente sconosciuto",
        ] {
            assert!(!gone(status, answer), "{status} {answer}");
        }
    }
    // Whose host or domain it is that a peer did not find.
    for status in ["5.0.0", "5.1.1", "5.5.0", ""] {
        for answer in [
            "smtp; 550 Host unknown",
            "smtp; 550 Host not found",
            "smtp; 550 unknown host",
            "smtp; 553 Domain does not exist",
            "smtp; 550 invalid domain",
            "smtp; 550 No such domain",
        ] {
            assert!(!gone(status, answer), "{status} {answer}");
        }
    }
    for (status, answer) in [
        ("5.0.0", "smtp; 550 Unknown domain x.test"),
        ("5.0.0", "smtp; 550 Host x.test not found"),
        ("5.0.0", "smtp; 550 5.1.2 Domain not found"),
        ("5.0.0", "smtp; 550 Recipient address rejected: Domain not found"),
        ("5.0.0", "Host not found"),
        ("5.0.0", "Domain does not exist"),
        ("5.4.4", "smtp; 550 Invalid domain"),
        ("5.1.2", "SMTP; 550 Host unknown"),
        ("", "Sorry, I couldn't find any host named x.test. (#5.1.2)"),
        ("5.1.1", "smtp; 550 5.1.1 <ada@x.test>: unknown; mail from us@example.org ends here"),
    ] {
        // The last one has other words that speak against it.
        assert_eq!(gone(status, answer), !answer.contains("mail from"), "{status} {answer}");
    }
    // A recipient in our own domain.
    let ours = |answer| {
        is_gone(&Said {
            status: "5.1.1",
            answer,
            recipient: "ada@example.org",
            sender: SENDER,
            step: Step::Recipient,
        })
    };
    assert!(ours("smtp; 550 5.1.1 ada@example.org: user unknown"));
    assert!(ours("smtp; 550 5.1.1 no such user at example.org"));
    assert!(!ours("smtp; 550 5.1.1 bounces@example.org: user unknown"));
}

#[test]
fn what_the_last_server_said_counts_and_not_the_words_of_those_that_passed_it_on() {
    for answer in [
        "smtp; 5.1.0 - Unknown address error 550-'Message refused' (delivery attempts: 0)",
        "smtp; 5.1.0 - Unknown address error 550-'Transaction failed' (delivery attempts: 0)",
        "smtp; 5.1.0 - Unknown address error 550-'Requested action not taken: mailbox unavailable' \
         (delivery attempts: 0)",
        "smtp; 5.1.0 - Unknown address error 554-'Refused. Too old' (delivery attempts: 0)",
        "smtp; 5.1.0 - Unknown address error 550-'Rejected' (delivery attempts: 2)",
        "smtp; 5.1.0 - Unknown address error ('550', ['Message refused']) []",
        "smtp; 5.1.0 - Unknown address error ('554', ['Nachricht abgelehnt']) []",
        "smtp; 5.1.2 - Bad destination host 'DNS Soft Error looking up x.test (MX) while asking \
         recursive_nameserver0.parent.'",
        "smtp; 5.3.0 - Other mail system problem 554-'go away'",
        "smtp;550 5.1.351 Remote server returned unknown recipient or mailbox unavailable -> 550 \
         Transaction failed",
        "smtp;550 5.1.351 Remote server returned unknown recipient or mailbox unavailable -> 550 \
         Message refused",
        "smtp;550 5.1.351 Remote server returned unknown recipient or mailbox unavailable -> 550 \
         Requested action not taken: mailbox unavailable;For explanation visit \
         https://postmaster.gmx.test/case?c=r0601",
        "smtp;550 5.1.351 Remote server returned unknown recipient or mailbox unavailable ->",
        "smtp;550 5.1.351 Remote server returned unknown recipient or mailbox unavailable -> \
         550 <ada@x.test>",
        "smtp; 550 5.1.1 <ada@x.test>: Recipient address rejected: undeliverable address: host \
         mx2.x.test[192.0.2.1] said: 550 go away (in reply to RCPT TO command)",
        "smtp; 550 5.1.1 <ada@x.test>: Recipient address rejected: undeliverable address: host \
         mx2.x.test[192.0.2.1] said: 550 unknown user (in reply to MAIL FROM command)",
        "smtp; 550 5.1.1 <ada@x.test>: Recipient address rejected: undeliverable address: mail for \
         x.test loops back to myself",
        "smtp; 550 5.1.1 <ada@x.test>: Recipient address rejected: undeliverable address: connect \
         to mx2.x.test[192.0.2.1]:25: Connection refused",
        "smtp; 550 5.1.1 <ada@x.test>: Recipient address rejected: undeliverable address: unable \
         to look up host",
        "smtp; 550 5.1.1 <ada@x.test>: Recipient address rejected: unverified address: unknown",
        "smtp; 550 5.1.1 Recipient address rejected: unverified address: user unknown",
        "smtp; 550 5.1.1 <ada@x.test>: Recipient address rejected: undeliverable address:",
        "smtp; 550 5.1.1 unknown recipient; the response from the remote server was: 550 refused",
    ] {
        for status in ["5.0.0", "5.1.1", "5.1.351", ""] {
            assert!(!gone(status, answer), "{status} {answer}");
        }
    }
    for (status, answer) in [
        ("5.0.0", "smtp; 5.1.0 - Unknown address error 550-'No such user' (delivery attempts: 0)"),
        ("5.0.0", "smtp; 5.1.0 - Unknown address error ('550', ['5.1.1 ada@x.test unknown']) []"),
        ("5.0.0", "smtp; 5.1.0 - Unknown address error 550-'#5.1.0 Address rejected.'"),
        ("5.0.0", "smtp; 5.3.0 - Other mail system problem 550-'Unknown user ada@x.test'"),
        (
            "5.0.0",
            "smtp; 5.1.2 - Bad destination host 'DNS Hard Error looking up x.test (MX):  NXDomain' \
             (delivery attempts: 0)",
        ),
        (
            "5.1.351",
            "smtp;550 5.1.351 Remote server returned unknown recipient or mailbox unavailable -> \
             550 5.5.0 Requested action not taken: mailbox unavailable",
        ),
        (
            "5.1.1",
            "smtp; 550 5.1.1 <ada@x.test>: Recipient address rejected: undeliverable address: \
             host mx2.x.test[192.0.2.1] said: 550 No such user (in reply to RCPT TO command)",
        ),
        (
            "5.1.1",
            "smtp; 550 5.1.1 <ada@x.test>: Recipient address rejected: undeliverable address: User \
             unknown in virtual alias table",
        ),
        (
            "5.4.310",
            "smtp;550 5.4.310 DNS domain x.test does not exist [Message=InfoDomainNonexistent] \
             [LastAttemptedServerName=x.test]",
        ),
        ("5.0.0", "smtp; 552 1 Requested mail action aborted, mailbox not found"),
        ("", "host mx.x.test [192.0.2.1]: 550 No Such User Here"),
    ] {
        assert!(gone(status, answer), "{status} {answer}");
    }
}

#[test]
fn whoever_logs_in_or_is_served_by_a_relay_is_not_the_recipient() {
    for answer in [
        "550 5.1.1 sorry, can't accept messages with no sender",
        "550 No such user in our accounts: please log in with your full mail address",
        "550 Invalid mailbox path for sender",
        "550 no such address in the allow list of this relay",
        "550 Recipient unknown to this smarthost: domain not configured for relaying",
        "550 5.1.1 Recipient unknown to this smart host",
        "550 smtp user does not exist",
        "550 5.1.1 unknown SMTP user",
        "550 The API user shop does not exist",
        "550 5.1.1 no such API user",
        "550 5.1.1 login user unknown",
        "550 5.1.1 SASL user unknown",
        "550 5.1.1 invalid user credentials",
        "550 unknown user or password",
    ] {
        for status in STATUSES {
            assert!(!gone(status, answer), "{status} {answer}");
        }
    }
}

#[test]
fn an_answer_that_is_longer_than_any_servers_is_not_read() {
    let long = format!("smtp; 550 5.1.1 user unknown{}", ", no such user".repeat(2_000));
    assert!(!gone("5.1.1", &long));
    let said = Said {
        status: "5.1.1",
        answer: &long,
        recipient: "ada@x.test",
        sender: SENDER,
        step: Step::Recipient,
    };
    assert!(super::speaks_against(&said));
    assert!(gone("5.1.1", &long[..8_000]));
}

#[test]
fn whoever_is_called_the_sender_is_not_the_recipient() {
    let tag = SENDER.split('@').next().unwrap();
    for answer in [
        format!("550 5.1.1 user unknown: {tag}"),
        "550 5.1.1 unknown address of origin".to_owned(),
        "550 5.1.1 P1 address does not exist".to_owned(),
        "550 5.1.2 The domain of the envelope address could not be found".to_owned(),
        "550 5.1.1 \u{53d1}\u{4ef6}\u{4eba}\u{7528}\u{6237}\u{4e0d}\u{5b58}\u{5728}".to_owned(),
    ] {
        assert!(!gone("5.1.1", &format!("smtp; {answer}")), "{answer}");
    }
    assert!(gone("5.1.1", "smtp; 550 5.1.1 \u{7528}\u{6237}\u{4e0d}\u{5b58}\u{5728}"));
}

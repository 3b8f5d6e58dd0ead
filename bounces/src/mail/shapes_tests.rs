//! Notifications and complaints in the shapes that mail servers give them, with names of examples.

use base64ct::{Base64, Encoding as _};

use super::*;

const GROUP: &str = "Final-Recipient: rfc822; ada@x.test\nAction: failed\nStatus: 5.1.1\n\
                     Diagnostic-Code: smtp; 550 5.1.1 no such user\n";

fn path() -> ReturnPath {
    ReturnPath::new("bounces@example.org", "0123456789abcdef0123456789abcdef").unwrap()
}

/// A mail to the return address of `ada@x.test`.
fn to_ada(rest: &str) -> Vec<u8> {
    format!(
        "Return-Path: <>\nDelivered-To: {}\nFrom: MAILER-DAEMON@mx.x.test\n{rest}",
        path().of("ada@x.test")
    )
    .into_bytes()
}

fn with_part(kind: &str, fields: &[u8]) -> Vec<u8> {
    let head = format!(
        "MIME-Version: 1.0\nContent-Type: multipart/report; report-type=delivery-status; \
         boundary=b\n\n--b\nContent-Type: text/plain\n\n\
         It could not be delivered.\n\n--b\n{kind}\n\n"
    );
    [
        &to_ada(&head)[..],
        fields,
        b"\n--b\nContent-Type: message/rfc822\n\nTo: ada@x.test\n\nhello\n\n--b--\n",
    ]
    .concat()
}

fn report(fields: &str) -> Vec<u8> {
    with_part("Content-Type: message/delivery-status", fields.as_bytes())
}

/// What is suppressed, and why.
fn suppressed(mail: &[u8]) -> Vec<(String, Reason)> {
    let notices =
        read(mail, &path()).unwrap_or_else(|refusal| panic!("{refusal:?}\n{}", text(mail)));
    notices.into_iter().map(|mut notice| (notice.addresses.remove(0), notice.reason)).collect()
}

fn ada(reason: Reason) -> Vec<(String, Reason)> {
    vec![("ada@x.test".to_owned(), reason)]
}

#[test]
fn odd_but_clear_reports_are_read() {
    let with =
        |of: &str, by: &str| format!("Reporting-MTA: dns; mx.x.test\n\n{}", GROUP.replace(of, by));
    for fields in [
        GROUP.to_owned(),
        format!("Reporting-MTA: dns; mx.x.test\n{GROUP}"),
        format!("\n\n\nReporting-MTA: dns; mx.x.test\n\n\n\n{GROUP}\n\n"),
        format!("Reporting-MTA: dns; mx.x.test\n\n{GROUP}\n \n\nX-Nothing: 1\n"),
        format!("{GROUP}\nReporting-MTA: dns; mx.x.test\n"),
        format!("Reporting-MTA: dns; mx.x.test\n\n{GROUP}{GROUP}"),
        with("Status:", "Status: 5.1.1 (bad address)\nStatus:"),
        with("Action:", "Action:\nAction:"),
        with("rfc822; ", ""),
        with("rfc822; ada@x.test", "<ada@x.test>"),
        with("rfc822; ada@x.test", "rfc822;\n ada@x.test"),
        with("rfc822; ada@x.test", "utf-8; \\x{61}da@x.test"),
        with("rfc822", "rfc/822"),
        with(":", " :"),
        with(":", "\t:"),
        with("failed", "failed (no such mailbox)"),
        with("failed", "(permanent (really)) FAILED"),
        with("failed", "Failure"),
        with("5.1.1\n", "5.1.1 (bad destination mailbox address)\n"),
        with("5.1.1\n", "(was 4.0.0) 5.1.1\n"),
        with("Final-Recipient", "FINAL-RECIPIENT"),
        with("no such user", "no\n such\n\tuser"),
        with("Status: 5.1.1", "Status: 5.0.0"),
        // Without the answer, which stands in the part for people or nowhere.
        with("Diagnostic-Code", "X-Code"),
        with("Action:", "X-Actual-Recipient: rfc822; ada@mx.x.test\nAction:"),
    ] {
        assert_eq!(suppressed(&report(&fields)), ada(Reason::Bounce), "{fields}");
        let fields = fields.replace('\n', "\r\n");
        assert_eq!(suppressed(&report(&fields)), ada(Reason::Bounce), "{fields}");
    }
}

#[test]
fn reports_are_read_in_whatever_encoding() {
    let fields = |said: &[u8]| [GROUP.trim_end().as_bytes(), b" ", said, b"\n"].concat();
    let plain = "Content-Type: message/delivery-status";
    // Shift_JIS, GBK, Latin-1, and bytes that are nothing.
    let texts: [&[u8]; 4] = [
        b"\x88\xb6\x90\xe6\x82\xaa\x82\xa0\x82\xe8\x82\xdc\x82\xb9\x82\xf1\x81\x42",
        b"\xd3\xc3\xbb\xa7\xb2\xbb\xb4\xe6\xd4\xda",
        b"Empf\xe4nger unbekannt",
        b"\xff\xfe\x80\x00\xc0",
    ];
    for said in texts {
        assert_eq!(suppressed(&with_part(plain, &fields(said))), ada(Reason::Bounce), "{said:?}");
        let quoted: String = fields(said).iter().fold(String::new(), |quoted, byte| match byte {
            b'\n' => quoted + "\n",
            byte if byte.is_ascii_graphic() && *byte != b'=' || *byte == b' ' => {
                quoted + &char::from(*byte).to_string()
            }
            byte => quoted + &format!("={byte:02X}"),
        });
        for charset in ["", "; charset=shift_jis", "; charset=\"nobody knows\""] {
            let kind = format!("{plain}{charset}\nContent-Transfer-Encoding: quoted-printable");
            assert_eq!(
                suppressed(&with_part(&kind, quoted.as_bytes())),
                ada(Reason::Bounce),
                "{quoted}"
            );
            let kind = format!("{plain}{charset}\nContent-Transfer-Encoding: base64");
            let encoded = Base64::encode_string(&fields(said)) + "\n";
            assert_eq!(
                suppressed(&with_part(&kind, encoded.as_bytes())),
                ada(Reason::Bounce),
                "{encoded}"
            );
        }
    }
    for kind in ["8bit", "7bit", "binary", "x-unknown"] {
        let kind = format!("{plain}\nContent-Transfer-Encoding: {kind}");
        assert_eq!(suppressed(&with_part(&kind, GROUP.as_bytes())), ada(Reason::Bounce), "{kind}");
    }
}

#[test]
fn reports_are_found_where_gateways_put_them() {
    let fields = format!("Reporting-MTA: dns; mx.x.test\n\n{GROUP}");
    for kind in [
        "Content-Type: message/global-delivery-status",
        "Content-Type: Message/Delivery-Status; name=\"details.txt\"",
        "Content-Type: text/delivery-status",
        "Content-Type: application/octet-stream; name=status",
        "Content-Type: text/plain",
        "Content-Disposition: inline",
        "",
    ] {
        assert_eq!(suppressed(&with_part(kind, fields.as_bytes())), ada(Reason::Bounce), "{kind}");
    }
    for whole in [
        format!("Content-Type: message/delivery-status\n\n{fields}"),
        format!(
            "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: \
             message/delivery-status\n\n{fields}\n--b--\n"
        ),
        format!(
            "Content-Type: multipart/mixed; boundary=o\n\n--o\nContent-Type: multipart/report; \
             boundary=b\n\n--b\nContent-Type: text/plain\n\nnot delivered\n\n--b\nContent-Type: \
             message/delivery-status\n\n{fields}\n--b--\n\n--o\n\nA footer.\n\n--o--\n"
        ),
        // The boundary does not close.
        format!(
            "Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: \
             message/delivery-status\n\n{fields}"
        ),
    ] {
        assert_eq!(suppressed(&to_ada(&whole)), ada(Reason::Bounce), "{whole}");
    }
}

#[test]
fn what_notifications_say_to_people_counts_where_they_have_no_answer_for_programs() {
    let exim = |said: &str| {
        format!(
            "X-Failed-Recipients: ada@x.test\nSubject: Mail delivery failed: returning message to \
             sender\n\nThis message was created automatically by mail delivery software.\n\nThe \
             following address(es) failed:\n\n  ada@x.test\n{said}\n\n------ This is a copy of the \
             message. ------\n\nTo: ada@x.test\n"
        )
    };
    let qmail = |said: &str| {
        format!(
            "Subject: failure notice\n\nHi. This is the qmail-send program at mx.x.test.\nI give \
             up.\n\n<ada@x.test>:\n{said}\n\n--- Below this line is a copy of the message.\n\nTo: \
             ada@x.test\n"
        )
    };
    let status = |said: &str| {
        format!(
            "Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: text/plain\n\nThese \
             failed:\n\nada@x.test: {said}\n\n--b\n\
             Content-Type: message/delivery-status\n\nFinal-Recipient: rfc822; ada@x.test\nAction: \
             failed\nStatus: 5.0.0\n\n--b--\n"
        )
    };
    let sendmail = |said: &str| {
        format!(
            "Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: text/plain\n\n   \
             ----- The following addresses had permanent fatal errors -----\n<ada@x.test>\n\n   \
             ----- Transcript of session follows -----\n... while talking to mx.x.test.:\n>>> \
             RCPT To:<ada@x.test>\n{said}\n\n--b\nContent-Type: message/delivery-status\n\n\
             Final-Recipient: rfc822; ada@x.test\nAction: failed\nStatus: 5.1.1\n\n--b--\n"
        )
    };
    for mail in [
        sendmail("<<< 550 5.1.1 no such user\n550 5.1.1 <ada@x.test>... User unknown"),
        sendmail("<<< 550-5.1.1 the account\n<<< 550 5.1.1 does not exist\n<<< 250 2.0.0 ok"),
        exim("    Unrouteable address"),
        exim(
            "    SMTP error from remote mail server after RCPT TO:<ada@x.test>:\n    host \
             mx.x.test [192.0.2.1]: 550 5.1.1 no such user",
        ),
        exim(
            "    host mx.x.test [192.0.2.1]: 550 No Such User Here\n  bob@x.test\n    host \
             mx.x.test: 552 5.2.2 mailbox full",
        ),
        qmail("Sorry, no mailbox here by that name. (#5.1.1)"),
        qmail(
            "192.0.2.9 does not like recipient.\nRemote host said: 550 5.1.1 no such user\nGiving \
             up on 192.0.2.9.",
        ),
        status("550 5.1.1 <ada@x.test>: Recipient address rejected: User unknown"),
        status("550 Invalid recipient"),
    ] {
        assert_eq!(suppressed(&to_ada(&mail)), ada(Reason::Bounce), "{mail}");
    }
    for mail in [
        sendmail("<<< 550 5.7.1 your IP is blocked\n550 5.1.1 <ada@x.test>... User unknown"),
        sendmail("<<< 550-we do not want\n<<< 550 your mails\n550 5.1.1 <ada@x.test>... gone"),
        exim("    mailbox is full: retry timeout exceeded"),
        exim(
            "    SMTP error from remote mail server after end of data:\n    host mx.x.test \
             [192.0.2.1]: 550 unknown user",
        ),
        exim("    host mx.x.test [192.0.2.1]: 550 5.7.1 blocked, no such user"),
        exim("").replace("ada@x.test", "bob@x.test"),
        qmail("I'm not going to try again; this message has been in the queue too long."),
        qmail("Remote host said: 450 4.1.1 user unknown"),
        qmail("Sorry, no mailbox here by that name. (#5.1.1)")
            .replace("Hi. This is the", "She wrote: this was the"),
        status("552 5.2.2 Mailbox full"),
    ] {
        assert_eq!(suppressed(&to_ada(&mail)), [], "{mail}");
    }
}

#[test]
fn a_refusal_of_a_command_before_the_recipient_suppresses_nobody() {
    let report = |text: &str, fields: &str| {
        to_ada(&format!(
            "Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: text/plain\n\n\
             {text}\n\n--b\nContent-Type: message/delivery-status\n\n\
             Final-Recipient: rfc822; ada@x.test\nAction: failed\n{fields}\n\n--b\n\
             Content-Type: message/rfc822\n\nTo: ada@x.test\n\nIt came >>> MAIL FROM: us\n\n\
             --b--\n"
        ))
    };
    let fields = "Status: 5.1.2\nDiagnostic-Code: smtp; 550 5.1.2 Domain not found";
    // What the mail that is sent back says is no step.
    let sent = "<ada@x.test>: host mx.x.test[192.0.2.9] said: 550 5.1.2 Domain not found (in reply";
    let asked = report(&format!("{sent}\n    to RCPT TO command)"), fields);
    assert_eq!(suppressed(&asked), ada(Reason::Bounce));
    for text in [
        &format!("{sent}\n    to MAIL FROM command)"),
        &format!("{sent}\n    to EHLO command)"),
        "<ada@x.test>: host mx.x.test[192.0.2.9] refused to talk to\n    me: 550 Host unknown",
        "... while talking to mx.x.test.:\n>>> MAIL From:<us@example.org>\n<<< 550 Host unknown",
        "  ada@x.test\n    SMTP error from remote mail server after pipelined\n    MAIL FROM:<us>:",
        "  ada@x.test\n    SMTP error from remote mail server after initial connection:",
    ] {
        assert_eq!(suppressed(&report(text, fields)), [], "{text}");
        assert_eq!(suppressed(&report(text, "Status: 5.1.1")), [], "{text}");
    }
    let content = "Status: 5.0.0\nDiagnostic-Code: smtp; 550 unknown user";
    let text = "host mx.x.test said: 550 unknown user (in reply to\n    end of DATA command)";
    assert_eq!(suppressed(&report(text, content)), []);
    for said in [
        "Connected to 192.0.2.1 but my name was rejected.\nRemote host said: 550 Host unknown",
        "Connected to 192.0.2.1 but greeting failed.\nRemote host said: 550 5.1.1 user unknown",
        "Connected to 192.0.2.1 but sender was rejected.\nRemote host said: 550 no such user",
    ] {
        let mail =
            format!("\nHi. This is the qmail-send program at mx.\n\n<ada@x.test>:\n{said}\n");
        assert_eq!(suppressed(&to_ada(&mail)), [], "{said}");
    }
}

#[test]
fn a_report_that_says_two_things_of_a_recipient_suppresses_nobody() {
    let other = |fields: &str| report(&format!("{GROUP}\nFinal-Recipient: {fields}\n"));
    for fields in [
        "rfc822; ada@x.test\nAction: delivered\nStatus: 2.1.5",
        "rfc822; Ada@X.test\nAction: relayed\nStatus: 2.1.9",
        "<ada@x.test>\nAction: expanded\nStatus: 2.0.0",
        "rfc822; ada@x.test\nAction: delayed\nStatus: 4.4.1",
        "rfc822; ada@x.test\nAction: failed\nStatus: 5.2.2",
        "rfc822; ada@x.test\nStatus: 5.1.1",
    ] {
        assert_eq!(suppressed(&other(fields)), [], "{fields}");
        let before = report(&format!("Final-Recipient: {fields}\n\n{GROUP}"));
        assert_eq!(suppressed(&before), [], "{fields}");
    }
    for fields in [
        "rfc822; bob@x.test\nAction: delivered\nStatus: 2.1.5",
        "rfc822; bob@x.test\nAction: failed\nStatus: 5.2.2",
    ] {
        assert_eq!(suppressed(&other(fields)), ada(Reason::Bounce), "{fields}");
    }
    let twice = suppressed(&report(&format!("{GROUP}\n{GROUP}")));
    assert!(twice.iter().all(|(address, _)| address == "ada@x.test") && !twice.is_empty());
}

/// A complaint as a provider sends it to an address of ours that is no return address.
fn complaint(kind: &str, sender: &str, recipient: &str, mail: &str) -> Vec<u8> {
    format!(
        "From: feedback@isp.test\nTo: fbl@example.org\nMIME-Version: 1.0\nContent-Type: \
         multipart/report; report-type=feedback-report; boundary=b\n\n--b\nContent-Type: \
         text/plain\n\nA report.\n\n--b\nContent-Type: message/feedback-report\n\nFeedback-Type: \
         {kind}\n\
         User-Agent: X/1\nVersion: 1\nOriginal-Mail-From: {sender}\nOriginal-Rcpt-To: {recipient}\n\
         Source-IP: 192.0.2.1\n\n--b\n{mail}\n--b--\n"
    )
    .into_bytes()
}

#[test]
fn a_complaint_suppresses_the_recipient_that_the_return_address_of_the_mail_proves() {
    let (tag, none) = (path().of("ada@x.test"), "Content-Type: text/plain\n\nnothing\n");
    let mail = format!(
        "Content-Type: message/rfc822\n\nReturn-Path: <{tag}>\nFrom: us@example.org\nTo: Ada \
         <ada@x.test>\n\nhello\n"
    );
    let headers =
        format!("Content-Type: text/rfc822-headers\n\nReturn-Path: <{tag}>\nTo: ada@x.test\n");
    for kind in ["abuse", "Abuse", "fraud", "opt-out", "other"] {
        for (sender, recipient, mail) in [
            (tag.as_str(), "ada@x.test", none),
            (&format!("<{tag}>"), "<ada@x.test>", none),
            (&format!("rfc822; {tag}"), "rfc822;Ada@x.test", none),
            ("", "", &mail),
            ("redacted", "redacted", &headers),
            (&tag, "redacted", &mail),
        ] {
            let found = suppressed(&complaint(kind, sender, recipient, mail));
            assert!(
                found.len() == 1 && found[0].0.eq_ignore_ascii_case("ada@x.test"),
                "{sender} {recipient} {mail}"
            );
            assert_eq!(found[0].1, Reason::Complaint);
        }
    }
    // What a machine reports, or the opposite.
    for kind in ["not-spam", "virus", "auth-failure", "dkim", "", "abuse\nFeedback-Type: not-spam"]
    {
        assert_eq!(suppressed(&complaint(kind, &tag, "ada@x.test", &mail)), [], "{kind}");
    }
}

#[test]
fn nothing_but_the_return_address_of_the_recipient_proves_a_complaint() {
    let other =
        ReturnPath::new("bounces@example.org", "another secret of thirty-two bytes..").unwrap();
    let none = "Content-Type: text/plain\n\nnothing\n";
    for sender in [
        "us@example.org".to_owned(),
        "bounces@example.org".to_owned(),
        format!("bounces+{}@example.org", "0".repeat(32)),
        path().of("bob@x.test"),
        other.of("ada@x.test"),
        path().of("ada@x.test").replace("example.org", "evil.test"),
    ] {
        let mail = format!(
            "Content-Type: message/rfc822\n\nReturn-Path: <{sender}>\nTo: ada@x.test\n\nhello\n"
        );
        for mail in [none, &mail] {
            assert_eq!(
                suppressed(&complaint("abuse", &sender, "ada@x.test", mail)),
                [],
                "{sender}"
            );
        }
    }
    // The text of the report is no field of it.
    let quoted = complaint("abuse", "us@example.org", "ada@x.test", none);
    let quoted = String::from_utf8(quoted).unwrap().replace("A report.", &path().of("ada@x.test"));
    assert_eq!(suppressed(quoted.as_bytes()), []);
}

#[test]
fn large_and_deep_mails_take_no_time_that_grows_faster_than_their_size() {
    let begun = std::time::Instant::now();
    let nested = "Content-Type: multipart/mixed; boundary=a\n\n--a\n".repeat(MAX_BYTES / 48);
    let rfc822 = "Content-Type: message/rfc822\n\n".repeat(MAX_BYTES / 30);
    let encoded = (0..40).fold(String::from("x"), |inner, _| {
        format!(
            "Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n{}",
            Base64::encode_string(inner.as_bytes())
        )
        .chars()
        .take(MAX_BYTES)
        .collect()
    });
    let parts = format!(
        "Content-Type: multipart/report; boundary=a\n\n{}",
        "--a\nContent-Type: message/delivery-status\n\nx: y\n\n".repeat(20_000)
    );
    let bytes: Vec<u8> =
        (0_u32..1 << 20).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let addresses = "ada@y.test <bob@y.test>: ".repeat(MAX_BYTES / 25);
    for rest in [
        nested,
        rfc822,
        encoded,
        parts,
        format!("\n{}", text(&bytes)),
        format!("X-Failed-Recipients: {addresses}\n\n{addresses}"),
    ] {
        read(&to_ada(&rest), &path()).ok();
        read(&report(&rest), &path()).ok();
    }
    for fields in [
        format!("{GROUP}\n").repeat(100_000),
        "\n".repeat(1 << 20),
        "a:\n\n".repeat(100_000),
        format!("Status: {}", "(".repeat(1 << 20)),
        format!("{GROUP}{}", "Diagnostic-Code: smtp; 550 5.1.1\n".repeat(30_000)),
        format!("Diagnostic-Code: {}", " 5.1.1 <".repeat(100_000)),
        format!("Final-Recipient: rfc822; {}", "ada@x.test".repeat(100_000)),
        format!("{GROUP}{}", " x\n".repeat(300_000)),
        GROUP.replace("no such user", &"450 '".repeat(1_600)),
    ] {
        read(&report(&fields), &path()).ok();
    }
    // They take seconds, on a busy machine a minute; what goes over a mail again for each of its
    // lines would take hours.
    assert!(begun.elapsed() < std::time::Duration::from_secs(900), "{:?}", begun.elapsed());
}

use super::*;

fn path() -> ReturnPath {
    ReturnPath::new("bounces@example.org", "0123456789abcdef0123456789abcdef").unwrap()
}

/// As postfix writes it.
fn mail(to: &str, recipient: &str, action: &str, status: &str) -> String {
    format!(
        "Return-Path: <>\r\nReceived: by mx.example.org (Postfix)\r\n\tid 4F2C81; Mon, 23 Nov 2026 \
         12:00:00 +0000 (UTC)\r\nFrom: MAILER-DAEMON@mx.example.org (Mail Delivery System)\r\n\
         Subject: Undelivered Mail Returned to Sender\r\nTo: {to}\r\nAuto-Submitted: \
         auto-replied\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/report; report-type=delivery-status;\r\n\
         \tboundary=\"4F2C81.1/mx.example.org\"\r\n\r\n\
         This is a MIME-encapsulated message.\r\n\r\n--4F2C81.1/mx.example.org\r\n\
         Content-Description: Notification\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\n\
         I'm sorry to have to inform you that your message could not be delivered to \
         <other@x.test>.\r\n\r\n\
         --4F2C81.1/mx.example.org\r\nContent-Description: Delivery report\r\nContent-Type: \
         message/delivery-status\r\n\r\n\
         Reporting-MTA: dns; mx.example.org\r\nX-Postfix-Queue-ID: 4F2C81\r\nArrival-Date: Mon, 23 \
         Nov 2026 12:00:00 +0000 (UTC)\r\n\r\n\
         Final-Recipient: rfc822; {recipient}\r\nOriginal-Recipient: rfc822;{recipient}\r\nAction: \
         {action}\r\nStatus: {status}\r\n\
         Remote-MTA: dns; mx.x.test\r\nDiagnostic-Code: smtp; 550 5.1.1 <{recipient}>: Recipient \
         address rejected:\r\n    User unknown in\r\n    table\r\n\r\n\
         --4F2C81.1/mx.example.org\r\nContent-Description: Undelivered Message\r\nContent-Type: \
         message/rfc822\r\n\r\nFrom: us@example.org\r\nTo: {recipient}\r\n\r\nhello\r\n\r\n\
         --4F2C81.1/mx.example.org--\r\n"
    )
}

fn suppressed(mail: &str) -> Result<Vec<Vec<String>>, Refusal> {
    Ok(read(mail.as_bytes(), &path())?.into_iter().map(|notice| notice.addresses).collect())
}

#[test]
fn what_is_for_good_suppresses_the_recipient_that_the_return_address_proves() {
    let to = path().of("ada@x.test");
    let notices =
        read(mail(&to, "Ada@x.test", "failed", "5.1.1").as_bytes(), &path()).ok().unwrap();
    let [notice] = &notices[..] else { panic!("one recipient") };
    assert!(notice.addresses == ["ada@x.test"] && notice.reason == Reason::Bounce);
    assert!(
        notice
            .detail
            .starts_with("5.1.1: smtp; 550 5.1.1 <Ada@x.test>: Recipient address rejected:"),
        "{}",
        notice.detail
    );
    assert!(notice.detail.ends_with("User unknown in    table"), "{}", notice.detail);
    // Line ends as a pipe may have them, other forms of the address.
    let original = mail(&to, "ada@x.test", "failed", "5.1.1");
    for mail in [
        original.replace("\r\n", "\n"),
        original.replace(&to, &format!("Sender <{}>", to.to_uppercase())),
        original.replace("To: bounces", "X-Original-To: bounces"),
        original.replace("message/delivery-status", "Message/Global-Delivery-Status"),
        original.replace("5.1.1\r\n", "5.1.6 (moved)\r\n").replace("failed", "Failed"),
    ] {
        assert_eq!(suppressed(&mail).unwrap(), [["ada@x.test"]], "{mail}");
    }
}

#[test]
fn what_is_for_now_or_about_the_mail_suppresses_nobody() {
    let to = path().of("ada@x.test");
    for (action, status) in [
        ("delayed", "4.4.1"),
        ("delayed", "5.1.1"),
        ("failed", "4.4.7"),
        ("failed", "5.2.2"),
        ("failed", "5.7.1"),
        ("failed", "5.1.8"),
        ("failed", "5.1.5"),
        ("failed", "5.2.1"),
        ("delivered", "2.1.5"),
        ("relayed", "5.1.1"),
        ("expanded", "5.1.1"),
    ] {
        assert_eq!(
            suppressed(&mail(&to, "ada@x.test", action, status)),
            Ok(Vec::new()),
            "{action} {status}"
        );
    }
    // Passed on to a mailbox that is gone: the person may have others.
    let passed_on = mail(&to, "ada@x.test", "failed", "5.1.1").replace(
        "Final-Recipient: rfc822; ada@x.test",
        "Final-Recipient: rfc822; a.l@elsewhere.test",
    );
    assert_eq!(suppressed(&passed_on), Ok(Vec::new()));
}

#[test]
fn what_did_not_come_to_the_recipients_return_address_is_refused() {
    let other =
        ReturnPath::new("bounces@example.org", "another secret of thirty-two bytes..").unwrap();
    for to in [
        "us@example.org".to_owned(),
        "bounces@example.org".to_owned(),
        path().of("bob@x.test"),
        other.of("ada@x.test"),
        path().of("ada@x.test").replace("example.org", "evil.test"),
        format!("bounces+{}@example.org", "0".repeat(32)),
        String::new(),
    ] {
        for action in ["failed", "delayed"] {
            let refusal = suppressed(&mail(&to, "ada@x.test", action, "5.1.1")).unwrap_err();
            assert!(matches!(refusal, Refusal::Unproven(_)), "{to}: {refusal:?}");
        }
    }
    // Of two recipients the one that is proven counts alone;
    // and an address in the text proves nothing.
    let to = path().of("ada@x.test");
    let two = mail(&to, "ada@x.test", "failed", "5.1.1").replace(
        "Final-Recipient: rfc822; ada",
        "Final-Recipient: rfc822; bob@x.test\r\nAction: failed\r\nStatus: 5.1.1\r\n\r\n\
         Final-Recipient: rfc822; ada",
    );
    assert_eq!(suppressed(&two), Ok(vec![vec!["ada@x.test".to_owned()]]));
    let quoted = mail("us@example.org", "ada@x.test", "failed", "5.1.1")
        .replace("I'm sorry", &format!("To: {to}\r\n"));
    assert!(matches!(suppressed(&quoted), Err(Refusal::Unproven(_))));
}

#[test]
fn a_notification_that_is_damaged_or_about_too_many_is_refused() {
    let to = path().of("ada@x.test");
    let good = mail(&to, "ada@x.test", "failed", "5.1.1");
    let many = good.replace(
        "Remote-MTA: dns; mx.x.test\r\n",
        &"\r\nFinal-Recipient: rfc822; ada@x.test\r\nAction: failed\r\n".repeat(1_000),
    );
    let large = format!("{good}{}", "x".repeat(MAX_BYTES));
    for mail in ["", &many, &large, good.split_once("1\r\nRemote").unwrap().0] {
        assert!(matches!(suppressed(mail), Err(Refusal::Unreadable(_))), "{mail:.300}");
    }
    // Cut off anywhere, it suppresses nobody else.
    for end in 0..good.len() {
        if let Ok(found) = suppressed(&good[..end]) {
            assert!(found.is_empty() || found == [["ada@x.test"]], "{end}");
        }
    }
}

#[test]
fn a_mail_that_reports_nothing_is_done_with_wherever_it_came_to() {
    let to = path().of("ada@x.test");
    let good = mail(&to, "ada@x.test", "failed", "5.1.1");
    let note = format!(
        "From: Ada <ada@x.test>\nTo: {to}\nAuto-Submitted: auto-replied\n\nI am away until \
         Monday.\n"
    );
    let group = "Final-Recipient: rfc822; ada@x.test\r\nOriginal-Recipient: rfc822;ada@x.test\r\n";
    let about_somebody_else = good.replace(
        "Final-Recipient: rfc822; ada@x.test",
        "Final-Recipient: rfc822; a.l@elsewhere.test",
    );
    let mut quiet = vec![
        note.replace(&to, "bounces@example.org"),
        note.replace("away", &"away ".repeat(MAX_BYTES / 4)),
        note,
        format!(
            "To: {to}\n\nHello!\n\n> Final-Recipient: rfc822; ada@x.test\n> Action: failed\n> \
             Status: 5.1.1\n"
        ),
        format!(
            "To: {to}\n\nHello! You wrote:\nFinal-Recipient: rfc822; ada@x.test\nAction: failed\n\
             Status: 5.1.1\n"
        ),
        good.replace(group, ""),
        good[..good.find("Final-Recipient").unwrap()].to_owned(),
        good.replace("Action: failed\r\n", ""),
        // A mailbox that the mail was passed on to, whether the report names the recipient or only
        // the mail that is sent back.
        about_somebody_else.replace("Original-Recipient: rfc822;ada@x.test\r\n", ""),
        about_somebody_else,
        good.replace("Action:", "X-Actual-Recipient: rfc822; a.l@elsewhere.test\r\nAction:"),
        good.replace("Action:", "X-Actual-Recipient: X-Unix; |/usr/bin/vacation\r\nAction:"),
        format!(
            "To: {to}\r\n{}",
            "Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\n".repeat(5_000)
        ),
    ];
    // Fields that contradict each other, though only one of them is relied upon.
    for field in
        ["Status: 4.2.2", "Action: delayed", "Final-Recipient: rfc822; bob@x.test", "Status: 5.1.2"]
    {
        quiet.push(good.replace("Status: 5.1.1\r\n", &format!("Status: 5.1.1\r\n{field}\r\n")));
    }
    // A line without anything in it ends a group, whatever the other lines end with.
    quiet.push(
        good.replace("\r\n", "\n")
            .replace("Status: 5.1.1", "\r\nFinal-Recipient: rfc822; ada@x.test\nStatus: 5.1.1"),
    );
    for mail in quiet {
        assert_eq!(suppressed(&mail), Ok(Vec::new()), "{mail:.2000}");
    }
}

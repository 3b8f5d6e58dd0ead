//! Answers as servers of all kinds write them, with names of examples.

use super::*;

const SENDER: &str = "bounces+0864bac4fdf5158c59e62c4f49f76d16@example.org";

#[test]
fn what_a_server_cannot_say_or_holds_against_the_sender_suppresses_nobody() {
    for said in [
        "LDAP lookup failure",
        "Recipient lookup failed",
        "System error",
        "Unable to verify recipient right now",
        "Recipient could not be verified",
        "configuration error",
        "mail system configuration error for this domain",
        "Database error",
        "Backend failure",
        "Server under maintenance",
        "User unknown at this time",
        "Mailbox service unavailable",
        "poor standing",
        "sending server is in poor standing",
        "messages from your country are refused",
        "We take no mails from your region",
    ] {
        for answer in [format!("smtp; 550 5.1.1 {said}"), format!("smtp; 550 {said}")] {
            assert!(!gone("5.1.1", &answer), "{answer}");
            assert!(!gone("5.0.0", &answer), "{answer}");
        }
    }
}

fn said<'a>(status: &'a str, answer: &'a str, step: Step) -> Said<'a> {
    Said { status, answer, recipient: "ada@x.test", sender: SENDER, step }
}

fn gone(status: &str, answer: &str) -> bool {
    is_gone(&said(status, answer, Step::Recipient))
}

#[test]
fn an_address_is_gone_where_status_and_answer_agree() {
    for (status, answer) in [
        ("5.1.1", ""),
        ("5.1.2", ""),
        ("5.1.3", ""),
        ("5.1.6", ""),
        ("5.1.10", ""),
        (
            "5.1.1",
            "smtp; 550 5.1.1 <ada@x.test>: Recipient address rejected: User unknown in table",
        ),
        ("5.1.1", "smtp; 550 5.1.1 Requested action not taken: mailbox unavailable"),
        ("5.1.1", "SMTP; 550 unknown user"),
        ("5.1.1", "x-postfix; unknown user: \"ada\""),
        ("5.1.1", "X-Postfix; gone"),
        ("5.1.1", "smtp; 550"),
        ("5.1.1", "SMTP; 550 <ada@x.test>"),
        ("5.1.1", "smtp; 550 <ada@x.test> unknown"),
        ("5.1.1", "550 5.1.1 <ada@x.test>... User Unknown"),
        ("5.1.1", "smtp; 550 5.1.1 <ada@mx7.x.test> is gone"),
        ("5.1.1", "smtp;550 5.1.1 RESOLVER.ADR.RecipNotFound; not found"),
        (
            "5.1.10",
            "smtp;550 5.1.10 RESOLVER.ADR.RecipientNotFound; \
             Recipient not found by SMTP address lookup",
        ),
        ("5.1.1", "smtp; 550 5.1.1 <ada@x.test>: inactive email address"),
        ("5.1.2", "SMTP; 550 Host unknown (Name server: x.test: host not found)"),
        ("5.1.6", "smtp; 551 5.1.6 recipient no longer on server"),
        // Gmail, whose answer has several lines.
        (
            "5.1.1",
            "smtp; 550-5.1.1 The email account that you tried to reach does not exist. Please try \
             550-5.1.1 double-checking the recipient's email address for typos or 550-5.1.1 \
             unnecessary spaces. For more information, go to 550 5.1.1 \
             https://support.google.test/mail/?p=NoSuchUser d9443c01a7336",
        ),
        // Exim has one status for everything.
        ("5.0.0", "smtp; 550 5.1.1 <ada@x.test>: no such user"),
        ("5.0.0", "smtp; 550 No Such User Here"),
        ("5.0.0", "smtp; 550 User not found"),
        ("5.0.0", "smtp; 550 <ada@x.test>: User unknown"),
        ("5.0.0", "smtp; 550 Unknown user ada@x.test"),
        ("5.0.0", "Unrouteable address"),
        ("5.0.0", "all relevant MX records point to non-existent hosts"),
        // Courier, sendmail, PowerMTA, IronPort, Microsoft 365.
        ("5.0.0", "unknown; No such domain."),
        ("5.5.0", "SMTP; 550 5.5.0 Invalid recipient. EX_416"),
        (
            "5.5.0",
            "smtp; 550 5.5.0 Requested action not taken: mailbox unavailable (S2017062302). \
             [XX1.prod.x.test 2026-11-26T08:00:00.000Z 08DD]",
        ),
        ("5.5.0", "smtp;550 5.5.0 mailbox unavailable"),
        // Postfix, which asks the next server for the recipient.
        (
            "5.1.1",
            "smtp; 550 5.1.1 <ada@x.test>: Recipient address rejected: undeliverable address: \
             host mx.x.test[192.0.2.1] said: 550 5.1.1 <ada@x.test>: user unknown \
             (in reply to RCPT TO command)",
        ),
        (
            "5.0.0",
            "smtp;554 delivery error: \
             dd This user doesn't have a x.test account (ada@x.test) [0] - mta1.x.test",
        ),
        (
            "5.0.0",
            "smtp; 5.1.0 - Unknown address error 550-'5.1.1 <ada@x.test>... \
             no such user' (delivery attempts: 0)",
        ),
        ("5.0.0", "smtp; 550 #5.1.0 Address rejected."),
        (
            "5.4.1",
            "smtp; 550 5.4.1 Recipient address rejected: Access denied. \
             AS(201806281) [XX1.x.test 2026-11-23T12:00:00]",
        ),
        (
            "5.4.1",
            "smtp; 550 5.4.1 [ada@x.test]: Recipient address rejected: Access denied [XX1.x.test]",
        ),
        (
            "5.1.351",
            "smtp;550 5.1.351 Remote server returned unknown recipient or mailbox unavailable -> \
             550 5.1.1 <ada@x.test>: gone",
        ),
        (
            "5.1.351",
            "smtp;550 5.1.351 Remote server returned unknown recipient or mailbox unavailable -> \
             550 Unknown user",
        ),
        (
            "5.4.310",
            "smtp;550 5.4.310 domain x.test does not exist [Message=InfoDomainNonexistent]",
        ),
        (
            "5.4.4",
            "X-Postfix; Host or domain name not found. Name service error for name=x.test \
             type=AAAA: Host not found",
        ),
        ("", "550 5.1.1 no such user"),
        // Text that is not ASCII, whatever it says.
        ("5.1.1", "smtp; 550 5.1.1 <ada@x.test> \u{fffd}\u{fffd}\u{fffd}"),
    ] {
        assert!(gone(status, answer), "{status} {answer}");
    }
}

#[test]
fn answers_about_something_else_than_the_address_say_that_nobody_is_gone_whatever_the_status() {
    let answers = [
        // Networks and block lists.
        "smtp; 550 5.7.1 the IP address of the sender is on a block list",
        "smtp; 550 5.1.1 <ada@x.test>: your IP is blocked",
        "smtp; 550 Blocked by our blacklist, see http://bl.x.test/192.0.2.1",
        "smtp; 554 5.1.1 192.0.2.1 is listed at zen.bl.test",
        "SMTP; 553 https://blocklist.example/query?ip=192.0.2.1",
        "SMTP; 553 https://x.test/e/17",
        "smtp; 550 poor reputation",
        "smtp; 550 5.1.1 client host rejected: cannot find your hostname",
        "smtp; 550 5.1.1 reverse DNS of 192.0.2.1 is missing",
        "smtp; 550 no PTR record",
        // Quotas and limits.
        "smtp; 552 5.2.2 Over quota",
        "smtp; 550 5.1.1 mailbox full",
        "smtp; 552 user unknown",
        "smtp; 550 5.1.1 <ada@x.test> - 192.0.2.1 has sent to too many recipients this hour. IB504",
        "smtp; 550 5.1.1 rate limit exceeded, user unknown",
        "smtp; 550 5.1.1 the user receives mail at a rate that prevents more",
        "smtp; 550 5.1.0 - Unknown address error 550-'5.2.2 <ada@x.test>... Mailbox Full'",
        // For now.
        "smtp; 450 4.1.1 <ada@x.test>: User unknown",
        "smtp; 450 user unknown",
        "smtp; 421 user unknown",
        "smtp; 550 5.1.1 greylisted, user unknown",
        "smtp; 550 5.1.1 no such user; temporary failure, try again later",
        "smtp; 550 5.1.1 user unknown (4.2.1)",
        "smtp; 550 host mx.x.test: retry timeout exceeded, no such user",
        "smtp; 550 Message expired; host not found",
        "X-Postfix; Host or domain name not found. Name service error for name=x.test type=MX: \
         Host not found, try again",
        // Policy, relay, sender, content.
        "smtp; 550 5.1.1 relaying denied",
        "smtp; 550 5.7.54 SMTP; Unable to relay recipient in non-accepted domain",
        "smtp; 550 5.1.1 <us@example.org>: Sender address rejected: User unknown",
        "smtp; 553 5.1.8 <us@example.org>... \
         Domain of sender address us@example.org does not exist",
        "smtp; 550 5.1.1 <us@example.org>: user unknown",
        "smtp; 550 5.1.1 HELO does not exist",
        "smtp; 550 5.1.1 SPF check failed: no such domain",
        "smtp; 550 5.1.1 DMARC policy of the domain",
        "smtp; 550 5.1.1 message content rejected",
        "smtp; 554 5.1.1 spam",
        "smtp; 550 5.1.1 authentication required",
        "smtp; 550 5.1.1 Administrative prohibition",
        "smtp; 550 5.1.1 access denied",
        "smtp; 550 5.1.1 Refused due to recipient preferences",
        "smtp; 550 5.1.1 account suspended",
        "smtp;550 5.1.351 Remote server returned unknown recipient -> 550 5.7.1 refused",
        // A program of the server itself, and where the mail was passed on to.
        "x-unix; procmail: Couldn't create \"/var/spool/mail/ada\": No such user",
        "X-Unix; 67",
        "smtp; 550 5.1.1 <a.l@elsewhere.test>: User unknown",
    ];
    for status in ["5.1.1", "5.1.2", "5.1.3", "5.1.10", "5.0.0", "5.1.351", "5.4.1", "5.5.0", ""] {
        for answer in answers {
            assert!(!gone(status, answer), "{status} {answer}");
        }
    }
}

#[test]
fn another_status_than_that_of_an_address_says_that_nobody_is_gone_whatever_the_answer() {
    let answer = "smtp; 550 5.1.1 <ada@x.test>: User unknown";
    for status in [
        "4.0.0", "4.1.1", "4.4.7", "4.2.2", "5.2.0", "5.2.1", "5.2.2", "5.2.3", "5.3.4", "5.4.6",
        "5.4.7", "5.6.0", "5.7.1", "5.7.26", "5.1.7", "5.1.8", "5.1.4", "5.1.5", "2.1.5",
        "5.4.316",
    ] {
        assert!(!gone(status, answer), "{status}");
    }
    // A status without a reason, and no answer that has one.
    for (status, answer) in [
        ("5.0.0", ""),
        ("5.0.0", "smtp; 550 Rejected"),
        ("5.0.0", "smtp; 550 mailbox unavailable"),
        ("5.5.0", "smtp;550 Requested action not taken: mailbox unavailable"),
        ("5.5.0", "smtp;550 5.5.0 Requested action not taken: mailbox unavailable, try mx2"),
        ("5.5.0", "smtp;550 5.5.0 mailbox unavailable, see https://x.test/why"),
        ("5.0.0", "smtp;550 5.0.0 Requested action not taken: mailbox unavailable"),
        ("5.1.0", "smtp; 550 5.1.0 rejected"),
        ("5.4.1", "smtp; 550 5.4.1 no answer from host"),
        ("5.4.1", "smtp; 541 5.4.1 Mail rejected by destination domain"),
        ("5.4.4", ""),
        (
            "5.4.4",
            "X-Postfix; Name service error for name=x.test type=MX: \
             Malformed or unexpected name server reply",
        ),
        ("5.0.0", "smtp; 550 : User unknown"),
        ("", ""),
        ("5", ""),
        ("55.1.1", ""),
        ("5.1.1.1", ""),
        ("5.1", ""),
    ] {
        assert!(!gone(status, answer), "{status} {answer}");
    }
}

/// Sendmail as a relay makes one status of all answers with a basic code.
#[test]
fn a_status_that_a_relay_made_of_a_basic_code_needs_words_that_say_that_nobody_is_there() {
    for (status, said) in [
        ("5.1.1", "550 Rejected"),
        ("5.1.1", "550 Message refused"),
        ("5.1.1", "550 not local host x.test, not a gateway"),
        ("5.1.1", "550 Dynamic addresses not accepted here"),
        ("5.1.1", "550 JunkMail rejected"),
        ("5.1.1", "550 Service not available"),
        ("5.1.1", "550 Versandlimit erreicht"),
        ("5.1.1", "550 Absender abgelehnt"),
        ("5.1.1", "550 Postfach voll"),
        ("5.1.1", "550 boite pleine"),
        ("5.1.1", "550 mailbox has no space left"),
        ("5.1.1", "550 Requested action not taken: mailbox unavailable"),
        ("5.1.1", "550 \u{88ab}\u{62d2}\u{7edd}"),
        ("5.1.3", "553 Bounces not accepted"),
        ("5.1.6", "551 we do not forward"),
    ] {
        assert!(!gone(status, &format!("SMTP; {said}")), "{said}");
        assert!(!gone(status, said), "{said}");
    }
}

#[test]
fn words_alone_do_not_count_when_the_server_had_seen_the_content() {
    let gone = |answer| is_gone(&said("5.0.0", answer, Step::Content));
    assert!(!gone("smtp; 550 Unknown user ada@x.test"));
    assert!(gone("smtp; 550 5.1.1 Unknown user ada@x.test"));
}

#[test]
fn numbers_that_are_no_codes_are_not_read_as_such() {
    let all = |text| codes(text).collect::<Vec<_>>();
    assert_eq!(
        all("Exim 4.94.2 at 5.1.1.4, v5.1.1, 5.1.1x, 5.1, 5.9.1, 3.1.1, 5.1.1111, 5..1"),
        <[[u16; 3]; 0]>::default()
    );
    assert_eq!(
        all("550-5.1.1 (#5.2.2) [5.7.1] '5.4.4' 4.2.1."),
        [[5, 1, 1], [5, 2, 2], [5, 7, 1], [5, 4, 4], [4, 2, 1]]
    );
    let basic = |text| basic_codes(text).collect::<Vec<_>>();
    assert_eq!(
        basic(" 550 5.1.1 more than 450 words, said: 452 full -> 421-x"),
        ["550", "452", "421"]
    );
}

#[test]
fn an_answer_of_gmail_about_its_own_address_has_no_code() {
    assert!(gone(
        "5.1.1",
        "smtp; The email account that you tried to reach does not exist. Please try \
         double-checking the recipient's email address for typos or unnecessary spaces. Learn more \
         at https://support.x.test/mail/?p=NoSuchUser d2sor1083486lfm.2 - gsmtp",
    ));
}

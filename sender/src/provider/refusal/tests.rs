//! Refusals as real servers word them.

use super::table::{POSTMARK, RESEND, SES};
use super::*;

const ADA: &str = "ada@example.org";
const US: &str = "us@shop.example";

pub(super) fn of(step: Step, line: &str) -> Meaning {
    let (code, text) = line.split_once(' ').unwrap_or((line, ""));
    let code = code.parse().unwrap();
    judge(&Said { step, code, name: "", text, recipient: ADA, sender: US })
}

pub(super) fn all(step: Step, meaning: Meaning, lines: &[&str]) {
    for line in lines {
        assert_eq!(of(step, line), meaning, "{step:?}: {line}");
    }
}

#[test]
fn what_comes_before_a_mail_is_about_us() {
    for step in [Step::Hello, Step::Login] {
        all(
            step,
            Meaning::Ours,
            &["421 closing", "450 4.7.1 later", "502", "535 5.7.8 no", "554 5.7.1 no"],
        );
    }
    all(
        Step::Sender,
        Meaning::Ours,
        &[
            "450 4.1.8 <us@shop.example>: Sender address rejected: Domain not found",
            "550 5.4.5 Daily user sending limit exceeded. - gsmtp",
            "530 5.7.57 Client not authenticated to send mail",
            "553 5.7.1 <us@shop.example>: Sender address rejected: not owned by user app",
            "550 5.1.0 Address rejected",
            "451 4.3.0 Temporary system problem",
            "550",
            // No size is given there.
            "552",
            "552 Requested mail action aborted: exceeded storage allocation",
            "552 5.3.4 Message size exceeds fixed limit",
            "552 5.2.3 x",
            "550 5.3.4 x",
            "552 Mailbox limit exceeded for this email address",
        ],
    );
    all(Step::Sender, Meaning::Unplaced, &["555 5.5.4 unsupported parameter SMTPUTF8"]);
    all(
        Step::SenderUtf8,
        Meaning::Unplaced,
        &[
            "555 5.5.4 unsupported parameter SMTPUTF8",
            "553 5.6.7 Address includes UTF-8 but not SMTPUTF8",
            "501 5.5.4 Syntax error in parameters",
            "550 5.6.7 SMTPUTF8 is required, but was not offered",
            "550 5.7.1 SMTPUTF8 not permitted",
            "500 5.5.2 Error: bad UTF-8 syntax",
        ],
    );
    all(Step::SenderUtf8, Meaning::Ours, &["451 4.3.0 internal error", "421 4.3.0 closing"]);
}

#[test]
fn refusals_of_a_recipient_that_are_about_us_are_ours() {
    all(
        Step::Recipient,
        Meaning::Ours,
        &[
            // postfix with smtpd_delay_reject.
            "504 5.5.2 <[127.0.0.1]>: Helo command rejected: need fully-qualified hostname",
            "450 4.7.1 <mail>: Helo command rejected: Host not found",
            "554 5.7.1 <ada@example.org>: Relay access denied",
            "454 4.7.1 <ada@example.org>: Relay access denied",
            "553 5.7.1 <us@shop.example>: Sender address rejected: not logged in",
            "550 5.1.8 <us@shop.example>: Sender address rejected: Domain not found",
            "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org",
            "554 5.7.1 <unknown[192.0.2.1]>: Client host rejected: Access denied",
            "450 4.7.1 Client host rejected: cannot find your reverse hostname, [192.0.2.1]",
            "450 4.7.1 <us@shop.example>: Sender address rejected: rate limit exceeded",
            // Exim.
            "550 relay not permitted",
            "550 Sender verify failed",
            "550 Called: 192.0.2.1 Sent: RCPT TO:<us@shop.example> Response: 550 no such user \
             Sender verify failed",
            "451 4.7.1 mailbox of the sender: hourly sending limit exceeded, try again later",
            "550 Verification failed for <us@shop.example> Sender verify failed",
            "550 Please turn on SMTP Authentication in your mail client.",
            "550 rejected because 192.0.2.1 is in a black list at dnsbl.example",
            // sendmail.
            "550 5.7.1 <ada@example.org>... Relaying denied. Proper authentication required.",
            "553 5.1.8 <us@shop.example>: Domain of sender address us@shop.example does not exist",
            "452 4.3.2 Connection rate limit exceeded.",
            // qmail.
            "553 sorry, that domain isn't in my list of allowed rcpthosts (#5.7.1)",
            // Microsoft.
            "550 5.7.1 Unable to relay",
            "530 5.7.57 SMTP; Client was not authenticated to send anonymous mail during MAIL FROM",
            "550 5.7.64 TenantAttribution; Relay Access Denied",
            "550 5.7.60 SMTP; Client does not have permissions to send as this sender",
            "550 5.1.8 Access denied, bad outbound sender",
            "550 5.1.90 Your message can't be sent because you've reached your daily limit",
            "550 5.7.511 Access denied, banned sender[192.0.2.1]",
            "550 5.7.606 Access denied, banned sending IP [192.0.2.1]",
            "451 4.7.650 The mail server [192.0.2.1] has been temporarily rate limited due \
             to IP reputation",
            "550 5.7.750 Service unavailable. \
             Client blocked from sending from unregistered domains",
            "432 4.3.2 STOREDRV.ClientSubmit; sender thread limit exceeded",
            // Gmail.
            "550 5.4.5 Daily user sending limit exceeded. - gsmtp",
            "550 5.7.26 This mail has been blocked because the sender is unauthenticated.",
            "530 5.7.0 Authentication Required. For more information, go to",
            "550 5.7.25 The IP address sending this message does not have a PTR record setup",
            // Others.
            "550 5.1.1 <ada@example.org>  - IP 192.0.2.1 has been blocked, \
             your IP address is listed",
            "554 Message limit exceeded, try again later",
            "550 Ip frequency limited",
            "550 Connection frequency limited",
            "550 5.7.1 Connections not accepted from servers without a valid sender domain. \
             Fix reverse DNS",
            "421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred",
            "550 5.7.1 Email rejected per DMARC policy for example.org",
            "452 4.5.3 too many recipients this hour",
            "503 5.5.1 Error: need MAIL command",
            "530 5.7.0 Must issue a STARTTLS command first",
            "550 The from address does not match a verified Sender Identity",
            "535 5.7.8 Authentication failed",
            "452 4.3.1 Insufficient system storage",
        ],
    );
}

#[test]
fn refusals_of_a_recipient_that_are_about_the_recipient_are_the_recipients() {
    all(
        Step::Recipient,
        Meaning::Unknown,
        &[
            "550 5.1.1 <ada@example.org>: Recipient address rejected: \
             User unknown in virtual mailbox table",
            "550 5.1.1 <ada@example.org>... User unknown",
            "550 5.1.1 The email account that you tried to reach does not exist. Please try",
            "550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found by SMTP address lookup",
            "553 5.1.3 <ada@example.org>... Invalid host name",
            "550 5.1.2 <ada@example.org>: Recipient address rejected: Domain not found",
            "550 5.1.6 recipient no longer on server: ada@example.org",
            "511 5.1.1 sorry, no mailbox here by that name",
            "550 sorry, no mailbox here by that name. (#5.1.1)",
            "550 5.1.1 No such user; your IP address was logged",
        ],
    );
    all(
        Step::Recipient,
        Meaning::Recipient,
        &[
            "550 5.1.1 <ada@example.org>: Recipient address rejected: undeliverable address: host \
             mx.example.org[192.0.2.1] said: 550 5.7.1 no such user; your IP is blocked",
            "550 Unrouteable address",
            "550 Unknown user ada@example.org",
            "550 4.1.1 no such user",
            "550 5.5.0 Requested action not taken: mailbox unavailable",
            "550 5.2.1 The email account that you tried to reach is disabled. Learn more at",
            "550 5.4.1 Recipient address rejected: Access denied. [AM6EUR05FT062.eop-eur05]",
            "550 5.7.1 RESOLVER.RST.AuthRequired; authentication required",
            "550 5.1.1 RCP-P2 http://postmaster.example/codes#rcp Refused due \
             to recipient preferences",
            "554 delivery error: dd This user doesn't have a example.com account \
             (ada@example.org) [0]",
            "501 5.1.5 Bad recipient address syntax",
        ],
    );
    all(
        Step::Recipient,
        Meaning::Later,
        &[
            "450 4.2.0 <ada@example.org>: Recipient address rejected: Greylisted, see \
             http://postgrey.example/",
            "450 4.7.1 Client host rejected: Greylisted for 5 minutes",
            "451 4.7.1 Please try again later",
            "450 5.1.1 no such user",
            "450 4.1.1 <ada@example.org>: Recipient address rejected: unverified address",
            "552 5.2.2 mailbox full",
            "550 5.2.2 <ada@example.org>... Mailbox Full",
            "450 4.1.1 <ada@example.org>: Recipient address rejected: unverified address: host \
             mx.example.org[192.0.2.1] said: 450 4.7.1 rate limit, relay access denied, \
             your IP is blocked",
            "552 5.2.2 The recipient's inbox is out of storage space",
            "452 4.2.2 Over quota",
            "452 4.3.1 Mailbox size limit exceeded, please try again later",
            "452 4.3.1 <ada@example.org>: mailbox has exceeded the maximum size today",
            "452 4.3.1 message storage limit reached, try again later",
            "451 Could not complete recipient verify callout: 450 relay access denied",
            "552",
            "450 4.2.1 The user you are trying to contact is receiving mail at \
             a rate that prevents",
            "451 Could not load DRD for domain (example.org) rcpt",
        ],
    );
    all(
        Step::Recipient,
        Meaning::Unplaced,
        &[
            "554 5.7.1 no",
            "550 5.7.1 Access denied",
            "554",
            "554 Transaction failed",
            "550 5.7.0 Local Policy Violation",
            "550 Access denied",
            "550 Administrative prohibition",
            "550 <ada@policy.example> rejected by our policy",
            "553 Message blocked",
            "550",
            "550 no",
            "553",
            "550 <policy@example.org>: rejected",
            "550 Recipient address rejected: Access denied",
            "550 Callout verification failed: 550 5.7.1 relay access denied today",
            "550 #4.1.1 unknown",
            "550 4.2.1 mailbox busy no more",
            "541 5.4.1 Mail rejected by destination domain",
            "571 blocked",
            "571 5.7.1 blocked",
            "542 ada@example.org Rejected",
            "556 5.7.0 nullMX",
            "501 Syntax error in recipient",
        ],
    );
}

#[test]
fn refusals_of_the_content_are_ours_or_nobody_knows() {
    for step in [Step::Data, Step::Content] {
        all(
            step,
            Meaning::Ours,
            &[
                "554 5.2.252 SendAsDenied; app@x.test not allowed to send as us@shop.example",
                "554 Message rejected: Email address is not verified. \
                 The following identities failed",
                "550 5.4.5 Daily user sending limit exceeded. - gsmtp",
                "550 5.7.60 no",
                "554 5.7.1 Relay access denied",
                "454 Throttling failure: Maximum sending rate exceeded.",
                "421 4.7.0 try again later",
                "503 Improper sequence of commands",
                "550 DMARC check failed.",
            ],
        );
        all(step, Meaning::Recipient, &["550 5.1.1 no such user", "550 5.1.1"]);
        all(
            step,
            Meaning::Later,
            &["451 4.3.0 later", "452", "552 5.2.2 mailbox full", "451 greylisted"],
        );
        all(
            step,
            Meaning::Unplaced,
            &[
                "554",
                "550 5.7.1 spam",
                // The recipient was accepted before.
                "554 no such user",
                "554 Transaction failed: Duplicate header",
                "552 5.3.4 Message too large",
                "552",
                "500 5.6.1 Message content rejected",
                "550 5.2.1 disabled",
            ],
        );
    }
}

#[test]
fn what_cannot_be_read_is_left_to_the_guard() {
    let of = |step, code, text: &[u8]| {
        let text = String::from_utf8_lossy(text);
        judge(&Said { step, code, name: "", text: &text, recipient: ADA, sender: US })
    };
    let gbk = b"\xc3\xbb\xd3\xd0\xb4\xcb\xd3\xc3\xbb\xa7";
    assert_eq!(of(Step::Recipient, 550, gbk), Meaning::Unplaced);
    assert_eq!(of(Step::Recipient, 554, gbk), Meaning::Unplaced);
    assert_eq!(of(Step::Recipient, 571, gbk), Meaning::Unplaced);
    assert_eq!(of(Step::Recipient, 450, gbk), Meaning::Later);
    assert_eq!(of(Step::Recipient, 550, &[b"5.1.1 ", &gbk[..]].concat()), Meaning::Unknown);
    assert_eq!(of(Step::Content, 554, gbk), Meaning::Unplaced);
}

#[test]
fn an_address_that_a_stranger_chose_is_no_reason() {
    for recipient in ["relay-access-denied@example.org", "\"relay access denied\"@your-ip.example"]
    {
        for text in [
            format!("5.1.1 <{recipient}>: no such user"),
            format!("5.1.1 {recipient}... no such user"),
        ] {
            let said = Said {
                step: Step::Recipient,
                code: 550,
                name: "",
                text: &text,
                recipient,
                sender: US,
            };
            assert_eq!(judge(&said), Meaning::Unknown);
        }
    }
}

#[test]
fn http_apis_are_judged_by_the_same_table() {
    let of = |step, code, name, text| {
        judge(&Said { step, code, name, text, recipient: ADA, sender: US })
    };
    for (step, code, name, text, meaning) in [
        (POSTMARK, 422, "406", "inactive recipient", Meaning::Recipient),
        (POSTMARK, 422, "300", "Error parsing 'To': Illegal email address", Meaning::Recipient),
        (POSTMARK, 422, "300", "Invalid 'To' address: 'ada@x'.", Meaning::Recipient),
        (
            POSTMARK,
            422,
            "300",
            "Error parsing 'Reply-To': illegal. Only 'To' may be empty",
            Meaning::Unplaced,
        ),
        (POSTMARK, 422, "300", "Invalid 'From' address: 'us'.", Meaning::Ours),
        (POSTMARK, 422, "300", "Invalid 'ReplyTo' address: 'us'.", Meaning::Unplaced),
        (POSTMARK, 422, "300", "Zero recipients specified", Meaning::Unplaced),
        (
            POSTMARK,
            422,
            "400",
            "The 'From' address you supplied is not a Sender Signature",
            Meaning::Ours,
        ),
        (POSTMARK, 422, "405", "Not allowed to send", Meaning::Ours),
        (POSTMARK, 422, "999", "", Meaning::Later),
        (RESEND, 403, "validation_error", "The x.test domain is not verified", Meaning::Ours),
        (RESEND, 429, "daily_quota_exceeded", "", Meaning::Ours),
        (RESEND, 422, "validation_error", "", Meaning::Unplaced),
        (RESEND, 409, "invalid_idempotent_request", "", Meaning::Mail),
        (SES, 400, "MessageRejected", "Email address is not verified.", Meaning::Ours),
        (SES, 400, "MessageRejected", "virus", Meaning::Unplaced),
        (SES, 400, "SendingPausedException", "", Meaning::Ours),
        (SES, 400, "Other", "", Meaning::Later),
        (Step::Http, 422, "", "", Meaning::Unplaced),
    ] {
        assert_eq!(of(step, code, name, text), meaning, "{step:?} {code} {name} {text}");
    }
}

#[test]
fn words_about_us_open_the_circuit_at_once_only_where_no_recipient_can_be_the_reason() {
    for (step, code, name, text, is_certain) in [
        (Step::Sender, 550, "", "5.4.5 Daily user sending limit exceeded", true),
        (Step::Sender, 421, "", "4.7.0 closing", true),
        (Step::SenderUtf8, 451, "", "4.3.0 internal error", false),
        (Step::Recipient, 421, "", "4.7.0 closing", false),
        (Step::Content, 421, "", "4.7.0 closing", false),
        (Step::Recipient, 450, "", "4.7.1 rate limit exceeded", false),
        (Step::Sender, 450, "", "4.7.1 rate limit exceeded", true),
        (Step::Recipient, 554, "", "5.7.1 Relay access denied", false),
        (Step::Recipient, 454, "", "4.7.1 Relay access denied", false),
        (Step::Content, 550, "", "5.4.5 Daily user sending limit exceeded", false),
        (POSTMARK, 422, "412", "Account pending approval: only your own domain", false),
        (RESEND, 403, "validation_error", "You can only send to your own address", false),
        (RESEND, 429, "rate_limit_exceeded", "", true),
        (RESEND, 401, "missing_api_key", "", true),
        (SES, 400, "MessageRejected", "Email address is not verified.", false),
        (SES, 400, "ThrottlingException", "", true),
    ] {
        let said = Said { step, code, name, text, recipient: ADA, sender: US };
        assert_eq!(judge(&said), Meaning::Ours, "{step:?} {code} {text}");
        let verdict = verdict(&said, None, String::new());
        let is_unavailable = matches!(verdict, Verdict::Unavailable { .. });
        assert_eq!(is_unavailable, is_certain, "{step:?} {code} {text}: {verdict:?}");
    }
}

/// The code says that nobody has the address, and the words may say something else.
#[test]
fn an_address_is_unknown_only_where_the_words_agree_with_the_code() {
    let is_unknown = |text: &str| {
        let said =
            Said { step: Step::Recipient, code: 550, name: "", text, recipient: ADA, sender: US };
        match verdict(&said, None, String::new()) {
            Verdict::Dead(Refusal { about: About::Recipient { is_unknown }, .. }) => is_unknown,
            _ => false,
        }
    };
    for text in [
        "5.1.1",
        "5.1.1 User unknown",
        "5.1.1 <ada@example.org>: Recipient address rejected: User unknown in local table",
        "5.1.2 <ada@example.org>: Recipient address rejected: Domain not found",
        "5.1.3 Bad recipient address syntax",
        "5.1.6 recipient no longer on server",
        "5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found by SMTP address lookup",
        "5.1.1 \u{7528}\u{6237}\u{4e0d}\u{5b58}\u{5728}",
        "5.1.1 \u{fffd}\u{fffd}\u{fffd}",
    ] {
        assert!(is_unknown(text), "{text}");
    }
    for text in [
        "5.1.1 Postfach voll",
        "5.1.1 El buzon esta lleno",
        "5.1.1 user over allotted space",
        "5.1.1 mailbox has no space left",
        "5.1.1 \u{90ae}\u{7bb1}\u{5df2}\u{6ee1}",
        "5.1.1 account on hold",
        "5.1.1 account not activated yet",
        "5.1.1 Recipient on vacation",
        "5.1.1 recipient mailbox is closed until Monday",
        "5.1.1 We do not like you",
        "5.1.1 Absender abgelehnt",
        "5.1.1 sorry, can't accept messages with no sender",
        "5.1.1 User does not exist, or does not take mails from you",
        "5.1.1 see https://x.test/e for why your mail is unwanted",
        "5.1.1 <else@example.org>: user unknown",
        "4.1.1 User unknown",
    ] {
        assert!(!is_unknown(text), "{text}");
    }
}

//! Refusals that servers give everybody's mails when something of ours is wrong, beside those of
//! addresses that do not exist: a text that is mistaken for one of these kills every mail.

use super::tests::of;
use super::{Meaning, Step};

/// Whether a mail is given up because of a refusal alone.
fn is_dead(step: Step, line: &str) -> bool {
    matches!(of(step, line), Meaning::Unknown | Meaning::Recipient | Meaning::Mail)
}

fn none_is_dead(lines: &[&str]) {
    for line in lines {
        for step in [Step::Sender, Step::SenderUtf8, Step::Recipient, Step::Data, Step::Content] {
            assert!(!is_dead(step, line), "{step:?}: {line}: {:?}", of(step, line));
        }
    }
}

#[test]
fn who_may_not_use_a_server_is_no_recipients_fault() {
    none_is_dead(&[
        // Postfix, whose restrictions of clients are looked at after RCPT.
        "554 5.7.1 <ada@example.org>: Recipient address rejected: Access denied",
        "550 5.1.1 <ada@example.org>: Recipient address rejected: Access denied",
        "550 5.1.0 <ada@example.org>: Recipient address rejected: Access denied",
        "550 <ada@example.org>: Recipient address rejected: Access denied",
        "550 5.7.1 <ada@example.org>: Recipient address rejected: Please see SPF",
        "554 5.7.1 <ada@example.org>: Recipient address rejected: not logged in",
        "554 5.7.1 <ada@example.org>: Recipient address rejected: Rejected by policyd",
        "554 5.7.1 <ada@x.test>: Recipient address rejected: Policy Rejection- Abuse. Go away.",
        "554 5.7.1 <ada@example.org>: Recipient address rejected: Sender is not authorized",
        "550 5.7.1 <ada@example.org>: Recipient rejected",
        "554 5.7.1 <DATA>: Data command rejected: Access denied",
        "554 5.7.1 <END-OF-MESSAGE>: End-of-data rejected: Access denied",
        "550 5.7.1 <ada@example.org>... we do not relay",
        "550 5.7.1 host not found in allow list",
        "550 5.7.1 Unauthorized recipient: host not found in access list",
        "550 Host your.vps not found in the list of permitted hosts rejected",
        "550 host [192.0.2.1] is not permitted to relay through this server",
        "550 Rejected",
        "550 Refused",
        "550 Denied",
        "550 Not accepted",
        "550 5.3.0 Rejected",
        "550 5.1.1 Rejected by policy",
        "550 5.1.1 Mail from 192.0.2.1 refused",
        "550 5.1.1 too many invalid recipients from your IP",
        "550 Too many invalid recipients",
        "550 #5.1.0 Address rejected.",
        "551 User not local; please try <forward-path>",
        "550 User has no permission",
        "550 SMTP service is not enabled for this account",
        "571 delivery not authorized, message refused",
        "554 Access to this mail system denied",
        "521 5.2.1 host does not accept mail from you",
        "556 domain does not accept",
        "550 5.1.1 poor standing",
        "550 5.1.1 messages from your country are refused",
    ]);
}

#[test]
fn an_account_of_ours_or_its_quota_is_no_recipients_fault() {
    none_is_dead(&[
        "550 5.4.6 Unusual sending activity detected. Please try after sometime. Learn more.",
        "554 5.2.0 STOREDRV.Submission.Exception:SubmissionQuotaExceededException; Failed to \
         process message due to a permanent exception with message The message can't be \
         submitted because the sender's submission quota was exceeded.",
        "550 Domain shop.example has an outgoing mail suspension.  Message discarded.",
        "550 Domain shop.example has an outgoing mail hold.",
        "550 Domain shop.example has exceeded the max emails per hour (151/150 (100%)) allowed.",
        "550 Account suspended",
        "550 This account has been suspended",
        "550 5.2.1 Account suspended",
        "550 5.7.1 account suspended",
        "550 User suspended",
        "550 5.7.1 user suspended for spam",
        "550 5.7.1 user has been temporary locked by policy",
        "550 5.7.1 <ada@example.org>: Recipient address rejected: User temporary locked.",
        "550 Sending account disabled",
        "550 Administrator has disabled this account",
        "550 Your E-Mail account has been disabled",
        "550 5.1.0 Account has been disabled for outgoing mail",
        "550 Mailbox disabled for sending",
        "550 5.2.1 Mailbox disabled for sending",
        "550 sorry, this mailbox is not permitted for outgoing",
        "550 5.2.1 The email account is disabled due to billing",
        "550 5.2.1 sender account disabled",
        "550 Subscription expired",
        "550 5.1.0 Trial expired",
        "550 License expired, please contact sales",
        "550 Invoice unpaid",
        "550 Service suspended",
        "550 Maximum credits exceeded",
        "550 Mail relay quota has been exceeded",
        "550 SMTP relay quota used up",
        "550 You have reached your daily email limit",
        "550 The user us has reached its daily email sending cap",
        "550 Limit of outgoing messages is exceeded",
        "550 Limit reached",
        "550 Quota reached",
        "554 Sending suspended for this account",
        "554 This account has been disabled",
        "552 sending quota",
        "552 Mailbox limit exceeded for this email address",
    ]);
}

#[test]
fn our_address_or_its_network_is_no_recipients_fault() {
    none_is_dead(&[
        "550 SC-001 (COL004-MC1F) Unfortunately, messages from 192.0.2.1 weren't sent. Please \
         contact your Internet service provider",
        "550 JunkMail rejected - host [192.0.2.1]:33 is in an RBL",
        "550 Invalid PTR",
        "550 no PTR",
        "550 DNS lookup of your name failed",
        "550 Host unknown (your helo)",
        "550 Requested action not taken: mailbox unavailable Sender address has null MX",
        "550 Requested action not taken: mailbox unavailable For explanation visit \
         https://postmaster.example/case?c=r1201&i=ip&v=192.0.2.1",
        "550 Sender domain does not exist",
        "550 Verification failed for <us@shop.example>",
        "550 Callback setup failed while verifying <us@shop.example>",
        "550 5.1.0 <us@shop.example> is not a known user",
        "550 5.1.1 <us@shop.example>: user unknown",
        "550 <us@shop.example>: user unknown",
        "550 5.1.1 <us@shop.example>: Sender user unknown",
        "550 5.1.2 Domain of us@shop.example not found",
        "550 5.1.2 Domain not found: shop.example",
        "550 Domain not found: shop.example",
        "550 5.1.1 Sender unknown",
        "550 Sender address unknown",
        "550 Return path unknown",
        "550 5.4.1 [us@shop.example]: unknown sender",
        "550 RP:TRC mx1,abc http://mail.example/help/help_spam_16.htm",
        "554 mail from unknown host",
        "554 Domain does not exist: shop.example",
    ]);
}

/// Words of an address that does not exist, beside words that say whose: that of the login, of the
/// sender, or of whom a relay serves.
#[test]
fn an_address_that_is_not_the_recipients_is_no_recipients_fault() {
    none_is_dead(&[
        "550 5.1.1 sorry, can't accept messages with no sender (chkuser)",
        "550 No such user in our accounts: please log in with your full mail address",
        "550 5.1.1 No such user: log in with your full mail address",
        "550 Invalid mailbox path for sender",
        "550 5.1.1 Invalid mailbox for sender",
        "550 no such address in the allow list of this relay",
        "550 5.1.1 no such recipient in the allow list",
        "550 Recipient unknown to this smarthost: domain not configured for relaying",
        "550 5.1.1 Recipient unknown to this smart host",
        "550 smtp user does not exist",
        "550 5.1.1 unknown SMTP user",
        "550 The API user shop does not exist",
        "550 5.1.1 no such API user",
        "550 5.1.1 User unknown or not allowed to relay",
        "550 5.1.1 The user you are trying to send as does not exist",
        "550 5.1.1 login user unknown",
        "550 no such account: smtp login",
        "550 5.1.1 SASL user unknown",
        "550 Unknown user or password",
        "550 5.1.1 invalid user credentials",
        "550 Invalid mailbox for this sender",
        "550 5.1.2 Domain not found (sender)",
        "550 5.2.0 Message cannot be delivered because the sender mailbox is disabled",
        "550 mailbox not found (your return address)",
        "550 No mailbox here for your tenant",
        "550 5.1.1 Too many failed recipients",
        "550 Maximum number of unknown users exceeded",
        "550 Invalid recipients exceed limit",
    ]);
}

#[test]
fn a_servers_own_fault_is_no_recipients() {
    none_is_dead(&[
        "550 System error",
        "550 Backend unavailable",
        "550 LDAP lookup failed",
        "550 5.1.1 LDAP lookup failure",
        "550 5.1.1 System error",
        "550 5.1.1 Unable to verify recipient right now",
        "550 5.1.1 configuration error",
        "550 5.1.1 Recipient lookup timed out",
        "550 Temporary failure",
        "550 5.0.0 temporary failure",
        "550 5.1.0 Service unavailable",
        "550 Internal server error",
        "550 5.2.0 Internal error",
        "550 Database error",
        "550 Service unavailable",
        "550 Server busy",
        "550 out of memory",
        "550 5.3.5 System config error",
        "550 5.4.0 no route",
        "550 5.4.3 Directory server failure",
        "550 5.4.4 Unable to route",
        "550 5.4.6 routing loop",
        "550 5.4.14 hop count exceeded",
        "550 5.4.7 Delivery expired",
        "550 5.4.0",
        "550 5.1.0",
        "550 5.2.0",
        "550 Remote host closed",
        "550 Connection refused",
        "550 No route to host",
        "510 bad",
        "540 no",
        "541 blocked",
        "599 error",
        "500 Command unrecognized",
        "501 syntax error in parameters",
        "501 5.5.4 syntax",
        "552 Insufficient system storage",
        "552 virus scanner unavailable",
        "554 disk full",
        "550 5.1.1 <ada@example.org>: Recipient address rejected: undeliverable address: host \
         mx.example.org[192.0.2.1] said: 554 5.7.1 your IP is blocked",
    ]);
}

#[test]
fn the_form_of_our_mails_is_no_recipients_fault() {
    none_is_dead(&[
        "552 5.3.4 Message size exceeds fixed limit",
        "550 5.3.4 too big",
        "550 5.2.3 size",
        "552",
        "552 rejected",
        "552 5.2.0 x",
        "552 5.7.0 This message was blocked: its content presents a potential security issue",
        "552 Message rejected for spam or virus content",
        "550 5.6.0 Lone CR or LF in headers",
        "554 5.6.0 Corrupt message",
        "550 5.6.1",
        "554 5.6.0 Message contained unsafe content",
        "550 Message blocked due to spam content in the message",
        "554 5.2.0 STOREDRV.Deliver",
        "554 5.4.0 Mail processing loop",
        "503 no valid recipients",
    ]);
}

#[test]
fn words_of_another_language_are_left_to_the_guard() {
    none_is_dead(&[
        "550 Versandlimit erreicht",
        "550 Ihr Postfach ist gesperrt",
        "550 Envoi refus\u{e9}: quota d\u{e9}pass\u{e9}",
        "550 Limite d'envoi atteinte",
        "550 L\u{ed}mite de env\u{ed}o superado",
        "550 \u{60a8}\u{7684}IP\u{5730}\u{5740}\u{88ab}\u{62d2}\u{7edd}",
        "550 \u{767a}\u{4fe1}\u{3092}\u{62d2}\u{5426}\u{3057}\u{307e}\u{3057}\u{305f}",
        "550 \u{41e}\u{442}\u{43f}\u{440}\u{430}\u{432}\u{43a}\u{430}",
        // Of the sender, with the code of a recipient.
        "550 5.1.1 Absender unbekannt",
        "550 5.1.1 Exp\u{e9}diteur inconnu",
        "550 5.1.1 Remitente desconocido",
        "550 5.1.1 Remetente inexistente",
        "550 5.1.1 Mittente sconosciuto",
        "550 5.1.1 Afzender onbekend",
        "550 5.1.1 Nadawca nie istnieje",
        "550 5.1.1 \u{41e}\u{442}\u{43f}\u{440}\u{430}\u{432}\u{438}\u{442}\u{435}\u{43b}\u{44c} \
         \u{43d}\u{435} \u{43d}\u{430}\u{439}\u{434}\u{435}\u{43d}",
        "550 5.1.1 \u{53d1}\u{4ef6}\u{4eba}\u{4e0d}\u{5b58}\u{5728}",
    ]);
}

#[test]
fn who_says_clearly_that_there_is_no_such_address_is_believed_at_once() {
    for line in [
        // Postfix.
        "550 5.1.1 <ada@example.org>: Recipient address rejected: User unknown in local \
         recipient table",
        "550 5.1.1 <ada@example.org>: Recipient address rejected: User unknown in relay \
         recipient table",
        "550 5.1.1 <ada@example.org>: Recipient address rejected: undeliverable address: host \
         mx.example.org[192.0.2.1] said: 550 5.1.1 <ada@example.org>: user unknown (in reply \
         to RCPT TO command)",
        "550 5.1.2 <ada@example.org>: Recipient address rejected: Domain not found",
        "556 5.1.10 <ada@example.org>: Recipient address rejected: Domain example.org does not \
         accept mail (nullMX)",
        "501 5.1.3 Bad recipient address syntax",
        // Exim and cPanel.
        "550 No Such User Here",
        "550 No such person at this address.",
        "550 Unrouteable address",
        "550 Unknown user",
        "550 Callout verification failed: 550 5.1.1 <ada@example.org>: user unknown",
        // sendmail, qmail, Courier, Dovecot.
        "550 5.1.1 <ada@example.org>... User unknown",
        "550 5.1.2 <ada@example.org>... Host unknown (Name server: example.org.: host not found)",
        "550 sorry, no mailbox here by that name. (#5.1.1)",
        "550 User unknown.",
        "550 5.1.1 <ada@example.org> User doesn't exist: ada@example.org",
        // Exchange and Microsoft 365, Outlook.com.
        "550 5.1.1 User unknown",
        "550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient ada@example.org not found by SMTP \
         address lookup",
        "550 5.1.1 RESOLVER.ADR.RecipNotFound; not found",
        "550 5.4.1 Recipient address rejected: Access denied. For more information see \
         https://aka.ms/EXOSmtpErrors [AM6EUR05FT062.eop-eur05.prod.protection.outlook.com]",
        "550 5.5.0 Requested action not taken: mailbox unavailable (S2017062302).",
        // Gmail.
        "550 5.1.1 The email account that you tried to reach does not exist. Please try \
         double-checking the recipient's email address for typos",
        "550 5.2.1 The email account that you tried to reach is inactive. Learn more at",
        // Yahoo, iCloud, Zoho, GMX, Mail.ru, Yandex, QQ.
        "552 1 Requested mail action aborted, mailbox not found",
        "554 30 Sorry, no such user ada@example.org",
        "550 5.1.1 <ada@example.org>: user does not exist",
        "550 5.1.1 User does not exist - <ada@example.org>",
        "550 5.1.1 <ada@example.org> mailbox unavailable",
        "550 Message was not accepted -- invalid mailbox. Local mailbox ada@example.org is \
         unavailable: user not found",
        "550 5.7.1 No such user!",
        "550 Mailbox not found.",
        // Others.
        "550 5.1.1",
        "550 5.1.1 Address rejected",
        "550 5.1.1 unknown or illegal alias: ada@example.org",
        "550 5.1.6 recipient no longer on server",
        "550 Invalid recipient <ada@example.org> (#5.1.1)",
        "553 5.3.0 <ada@example.org>... No such user here",
    ] {
        assert!(is_dead(Step::Recipient, line), "{line}: {:?}", of(Step::Recipient, line));
    }
}

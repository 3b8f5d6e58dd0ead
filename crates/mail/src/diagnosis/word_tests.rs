//! Words of an answer: which of them name a mailbox or a domain, and which another reason.

use super::doubtful_tests::{SENDER, STATUSES, gone};
use super::*;

#[test]
fn a_code_of_its_own_with_words_about_something_else_suppresses_nobody() {
    for said in [
        "Message refused",
        "Your message was rejected",
        "Mail refused - unwanted",
        "Rejected",
        "Undeliverable: your message looks automated",
        "Dynamic addresses not accepted here",
        "user over allotted space",
        "<ada@x.test> mailbox has no space left",
        "mailbox over capacity",
        "Mailbox is over its maximum",
        "Postfach voll",
        "Die Mailbox ist voll",
        "Boite du destinataire pleine",
        "Bo\u{ee}te pleine",
        "Bo\u{fffd}te pleine",
        "El buzon esta lleno",
        "Caixa de correio cheia",
        "Casella piena",
        "Mailbox vol",
        "\u{44f}\u{449}\u{438}\u{43a} \u{437}\u{430}\u{43d}\u{44f}\u{442}",
        "\u{90ae}\u{7bb1}\u{5df2}\u{6ee1}",
        "Adresse gesperrt",
        "Recipient on vacation",
        "recipient mailbox is closed until Monday",
        "account on hold",
        "account not activated yet",
        "account inactive due to non payment",
        "Too old message",
        "Mailbox under migration",
        "User has not signed in for 90 days",
        "MessageLabs: hold, see case 1234",
        "the group you tried to contact may not exist, or you may not have permission to post",
        "Requested action not taken: mailbox unavailable For explanation visit https://x.test/e",
        "We do not like you",
        "No thanks",
    ] {
        for status in STATUSES {
            let answer = format!("smtp; 550 5.1.1 {said}");
            assert!(!gone(status, &answer), "{status} {answer}");
        }
    }
    for said in [
        "",
        "<ada@x.test>",
        "<ada@x.test>: Recipient address rejected",
        "<ada@x.test>... rejected",
        "ada@x.test is gone",
        "Address rejected ada@x.test",
        "Mailbox unavailable",
        "Recipient refused",
        "bad destination mailbox address",
        "inactive email address",
        "Account deleted",
        "Sorry your message to ada@x.test cannot be delivered. This account has been deleted",
        "This user is no longer employed here",
        "User not found: ada@x.test",
        "User (ada@x.test) unknown.",
        "Email address could not be found, or was misspelled (G8)",
        "MXIN501 mailbox ada@x.test unknown ;id=a;sid=b;mta=mx1;d=2026;ipsrc=192.0.2.1;",
        "Not our Customer",
        "Empf\u{e4}nger unbekannt",
        "Empf\u{fffd}nger unbekannt; user unknown",
        "Postfach existiert nicht",
        "Boite inconnue",
        "utilisateur inconnu",
        "L'adresse n'existe pas",
        "El usuario no existe",
        "Utente sconosciuto",
        "Gebruiker onbekend",
        "\u{7528}\u{6237}\u{4e0d}\u{5b58}\u{5728}",
    ] {
        for status in ["5.0.0", "5.1.1", ""] {
            let answer = format!("smtp; 550 5.1.1 {said}");
            assert!(gone(status, &answer), "{status} {answer}");
        }
    }
}

#[test]
fn words_count_only_of_a_mailbox_or_a_domain() {
    for said in [
        "no such message stream",
        "no such header",
        "No such list",
        "no such file or directory",
        "no such route to the mailbox host",
        "header Date does not exist",
        "Subject does not exist",
        "Unable to deliver: message-id does not exist",
        "the template for this user's reply does not exist",
        "Sending host does not exist",
        "the group you tried to contact may not exist, or you may not have permission to post",
        "group not found",
        "The recipient does not exist in our whitelist",
        "the account or domain may not exist",
        "user may not exist",
        "connector not found",
        "key not found",
        "unknown reason",
        "unknown command",
        "Mailbox has moved; resend",
        "page not found, see https://x.test/user",
        "invalid message id",
        "invalid header in mail to user",
        "object has moved",
        "this server does not accept mail from dynamic hosts",
    ] {
        for answer in [format!("smtp; 550 {said}"), format!("554 {said}")] {
            for status in ["5.0.0", "5.1.1", "5.5.0", ""] {
                assert!(!gone(status, &answer), "{status} {answer}");
            }
        }
    }
    for said in [
        "no such user",
        "No such user here",
        "No such recipient here.",
        "No such mailbox",
        "no such account",
        "No such local user",
        "no such address here",
        "sorry, no mailbox here by that name. (#5.1.1)",
        "User unknown",
        "user ada unknown",
        "Unknown user: ada",
        "Unknown user - ada@x.test",
        "Unknown local part ada in <ada@x.test>",
        "unknown or illegal alias: ada@x.test",
        "ada@x.test: unknown address",
        "Recipient ada@x.test does not exist here",
        "The email account that you tried to reach does not exist. Please try double-checking",
        "<ada@x.test> does not exist",
        "Mailbox ada does not exist",
        "The mailbox you specified could not be found",
        "Recipient not found. <https://x.test/x>",
        "Invalid Recipient - https://community.mimecast.test/docs/DOC-1369#550 [abc.uk123]",
        "Invalid mailbox",
        "This user doesn't have a x.test account (ada@x.test) [0] - mta1.x.test",
        "User ada@x.test not listed in Domino Directory",
        "permanent failure for one or more recipients (ada@x.test:550 5.1.1 User Unknown)",
        "RCPT TO:<ada@x.test> User unknown",
        "Benutzer hier unbekannt",
        "Empf\u{e4}nger existiert nicht",
        "Destinataire inconnu",
        "El usuario no existe",
        "Utente non esiste",
        "not our customer",
        "Unrouteable address",
        "Addressee unknown",
        "Recipient unknown",
    ] {
        let answer = format!("smtp; 550 {said}");
        for status in ["5.0.0", "5.1.1", ""] {
            assert!(gone(status, &answer), "{status} {answer}");
        }
    }
}

#[test]
fn words_alone_count_only_beside_words_that_give_no_other_reason() {
    for said in [
        "invalid mailbox in From",
        "unknown user name or bad password",
        "Invalid user credentials",
        "user not found in address book of recipient",
        "Message-ID address invalid",
        "To: header contains invalid address",
        "Invalid address in Reply-To",
        "Reply-To address not found",
        "Cc recipient unknown",
        "some recipients are invalid",
        "invalid recipients count",
        "user unknown: not in the list of permitted correspondents",
        "unknown address 192.0.2.9",
        "address 2001:db8::1 not found",
        "invalid account: subscription ended",
        "unknown customer license",
        "mailbox not found, please try again in a few minutes",
        "User unknown in relay recipient table, try another MX",
        "recipient unknown to this cluster member",
        "recipient does not exist any more, mail server moving",
        "No such user; click https://x.test to be released",
        "user not found - server is shutting down",
        "mailbox not found: the store is offline",
        "user unknown (directory unreachable)",
        "Benutzer unbekannt, Verzeichnis nicht erreichbar",
        "utilisateur inconnu pour le moment",
        "mailbox invalid state",
    ] {
        for (status, kind) in [("5.0.0", "smtp; "), ("5.1.1", "SMTP; "), ("", "")] {
            let answer = format!("{kind}550 {said}");
            assert!(!gone(status, &answer), "{status} {answer}");
        }
    }
    assert!(!gone("5.0.0", "smtp; 535 invalid user"));
    for answer in [
        "smtp; 550 non-existent user",
        "smtp; 550 There is no such user here, please check the spelling",
        "smtp; 550 Requested action not taken: mailbox does not exist",
        "smtp; 550 <ada@x.test>: Recipient address rejected: User unknown in relay recipient table",
        "smtp; 550 5.5.0 Service refuse. Veuillez essayer plus tard. Invalid recipient. EX_416",
        "smtp; 550-Callout verification failed: 550 550 User unknown",
        "SMTP error from remote mail server after RCPT TO:<ada@x.test>: 550 No such recipient here",
        "SMTP error from remote mail server after RCPT TO:<ada@x.test>: host mx.x.test \
         [192.0.2.1]: 550 No such recipient here",
        "192.0.2.1 does not like recipient. Remote host said: 550 unknown user Giving up on \
         192.0.2.1.",
    ] {
        assert!(gone("5.0.0", answer), "{answer}");
    }
}

#[test]
fn a_recipient_whose_name_is_a_word_is_no_word_of_the_answer() {
    let gone = |recipient: &str, answer: &str| {
        is_gone(&Said { status: "5.0.0", answer, recipient, sender: SENDER, step: Step::Recipient })
    };
    assert!(gone("user@x.test", "smtp; 550 unknown user user@x.test"));
    assert!(gone("postmaster@x.test", "smtp; 550 Mailbox postmaster does not exist"));
    assert!(gone("no@x.test", "smtp; 550 no such user"));
    for name in ["host", "domain", "stream", "connector", "key", "header"] {
        for said in ["unknown", "not found", "does not exist"] {
            assert!(
                !gone(&format!("{name}@x.test"), &format!("smtp; 550 {name} {said}")),
                "{name}"
            );
        }
    }
    assert!(!gone("sender@x.test", "smtp; 550 sender unknown"));
    assert!(!gone("spam@x.test", "smtp; 550 spam, user unknown"));
    assert!(!gone("header@x.test", "smtp; 550 message without header Date: does not exist"));
}

/// A provider calls these permanent, too, and only words speak against it.
#[test]
fn limits_senders_and_networks_speak_against_it_in_other_languages() {
    for answer in [
        "550 Versandlimit erreicht",
        "550 Postfach des Absenders unbekannt",
        "550 5.1.1 Benutzer darf nicht senden",
        "550 Limite d'envoi atteinte",
        "550 5.1.1 Exp\u{e9}diteur inconnu",
        "550 5.1.1 utilisateur inconnu ou mot de passe incorrect",
        "550 L\u{ed}mite de env\u{ed}o",
        "550 5.1.1 Remitente desconocido",
        "550 5.1.1 usuario no autorizado",
        "550 5.1.1 Remetente inexistente",
        "550 5.1.1 Mittente sconosciuto",
        "550 5.1.1 Afzender onbekend",
        "550 5.1.1 Nadawca nie istnieje",
        "550 5.1.1 \u{41e}\u{442}\u{43f}\u{440}\u{430}\u{432}\u{438}\u{442}\u{435}\u{43b}\u{44c} \
         \u{43d}\u{435} \u{43d}\u{430}\u{439}\u{434}\u{435}\u{43d}",
        "550 \u{60a8}\u{7684}IP\u{5730}\u{5740}\u{88ab}\u{62d2}\u{7edd}",
        "550 \u{767a}\u{4fe1}\u{3092}\u{62d2}\u{5426}\u{3057}\u{307e}\u{3057}\u{305f}",
        "550 \u{90ae}\u{7bb1}\u{5df2}\u{6ee1}",
    ] {
        let said = Said {
            status: "5.0.0",
            answer,
            recipient: "ada@x.test",
            sender: SENDER,
            step: Step::Recipient,
        };
        assert!(super::speaks_against(&said), "{answer}");
    }
}

#[test]
fn a_code_of_its_own_counts_beside_words_in_an_encoding_that_nobody_named() {
    let said = |words: &[u8]| {
        let answer = [b"smtp; 550 5.1.1 <ada@x.test> ", words].concat();
        gone("5.1.1", &String::from_utf8_lossy(&answer))
    };
    // Shift_JIS and GBK.
    assert!(said(b"\x88\xb6\x90\xe6\x82\xaa\x82\xa0\x82\xe8\x82\xdc\x82\xb9\x82\xf1"));
    assert!(said(b"\xd3\xc3\xbb\xa7\xb2\xbb\xb4\xe6\xd4\xda"));
    // Latin-1: a mailbox is full.
    assert!(!said(b"Postfach \xfcberf\xfcllt") && !said(b"Bo\xeete pleine"));
}

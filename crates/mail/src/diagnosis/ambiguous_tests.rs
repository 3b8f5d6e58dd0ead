//! Answers that can mean an address that nobody has, or a policy: each is decided by a rule.

use super::*;

/// The rules, and answers with a code of an address that each decides.
fn decided(is_expected: bool, rule: &str, answers: &[&str]) {
    for answer in answers {
        for status in ["5.1.1", "5.0.0", ""] {
            let said = Said {
                status,
                answer,
                recipient: "ada@x.test",
                sender: "bounces+0864bac4fdf5158c59e62c4f49f76d16@example.org",
                step: Step::Recipient,
            };
            assert_eq!(is_gone(&said), is_expected, "{rule}: {status} {answer}");
        }
    }
}

#[test]
fn a_code_of_an_address_and_nothing_else_is_believed() {
    decided(
        true,
        "nothing gives another reason",
        &[
            "550 5.1.1 Recipient address rejected",
            "550 5.1.1 mailbox unavailable",
            "550 5.1.1 mailbox inactive",
            "554 5.1.1 no valid recipients",
            "501 5.1.3 Bad recipient address syntax",
        ],
    );
    decided(
        false,
        "a word of policy, of the content or of our command is another reason",
        &[
            "550 5.1.1 <ada@x.test>: Recipient address rejected: Access denied",
            "550 5.1.1 Recipient not accepted here",
            "501 5.1.3 Syntax error in parameters",
            "550 5.7.1 No such user!",
        ],
    );
}

#[test]
fn of_a_choice_of_reasons_each_has_to_be_that_nobody_is_there() {
    decided(
        false,
        "one of the reasons is another one",
        &[
            "550 5.1.1 User unknown or not reachable from where you are",
            "550 5.1.1 User does not exist, or does not take mails from you",
            "550 5.1.1 No such user or message unwanted",
            "550 5.1.1 Benutzer unbekannt oder Annahme verweigert",
            "550 5.1.1 Utilisateur inconnu ou message indesirable",
            "550 5.1.1 The account or domain may not exist",
        ],
    );
    decided(
        true,
        "all of them are",
        &[
            "550 5.1.1 unknown or illegal alias: ada@x.test",
            "550 5.1.1 Email address could not be found, or was misspelled (G8)",
            "550 5.1.1 User unknown or invalid recipient",
            // The choice is one of advice.
            "550 5.1.1 The email account that you tried to reach does not exist. Please try \
             double-checking the recipient's email address for typos or unnecessary spaces. For \
             more information, go to https://support.x.test/mail/?p=NoSuchUser - gsmtp",
            "550 5.1.1 User unknown. Ask the recipient or our postmaster",
        ],
    );
}

#[test]
fn what_is_so_for_now_or_of_another_place_says_nothing_of_the_address() {
    decided(
        false,
        "it is for now, of this mail, or of where mails are passed on to",
        &[
            "550 5.1.1 User is moving, address unknown until Monday",
            "550 5.1.1 User unknown. Your mail was quarantined",
            "550 5.1.1 <ada@x.test>: mail forwarded to unknown host",
            "550 5.1.1 Forwarding address of this user does not exist",
        ],
    );
}

#[test]
fn what_a_server_writes_before_every_reason_is_none() {
    decided(
        true,
        "the reason follows",
        &["550 Message was not accepted -- invalid mailbox.  Local mailbox ada@x.test is \
           unavailable: user not found"],
    );
    decided(
        false,
        "the reason follows",
        &[
            "550 Message was not accepted -- invalid mailbox.  Local mailbox ada@x.test is \
             unavailable: account is disabled",
            "550 Message was not accepted",
        ],
    );
}

#[test]
fn a_quota_or_a_maintenance_is_another_reason_in_other_languages_too() {
    decided(
        false,
        "a limit or a moment is another reason",
        &[
            "550 5.1.1 Usuario desconocido: cuota superada",
            "550 5.1.1 Usuario desconocido: servidor en mantenimiento",
            "550 5.1.1 Benutzer unbekannt: Postfach gesperrt wegen Wartung",
            "550 5.1.1 Benutzer unbekannt: Speicherplatz überschritten",
            "550 5.1.1 Utilisateur inconnu : quota dépassé",
            "550 5.1.1 Utilisateur inconnu : boîte pleine",
            "550 5.1.1 Utente sconosciuto: casella piena",
            "550 5.1.1 Utente sconosciuto: server in manutenzione",
            "550 5.1.1 Usuário desconhecido: cota excedida",
            "550 5.1.1 Usuário desconhecido: servidor em manutenção",
            "550 5.1.1 no such user: migrating mailboxes today",
            "550 5.1.1 no such user: migration under way",
            "550 5.1.1 Usuario desconocido: migración de buzones",
        ],
    );
}

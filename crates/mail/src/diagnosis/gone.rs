//! Words that say that an address does not exist: what does not, and that it does not.
//!
//! `no such` alone may be said of a header or a group, and `unknown` of the machine that sends.

use super::words::RECIPIENT;

/// What an answer says does not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Gone {
    Mailbox,
    /// A host or a domain: the recipient's, or the sender's.
    System,
}

const MAILBOXES: &[&str] = &[
    RECIPIENT,
    "user",
    "users",
    "userid",
    "username",
    "recipient",
    "recipients",
    "mailbox",
    "mailboxes",
    "inbox",
    "address",
    "addresses",
    "addressee",
    "emailaddress",
    "account",
    "accounts",
    "alias",
    "customer",
    "subscriber",
    "person",
    "part",
    // German, Dutch, Scandinavian languages
    "benutzer",
    "benutzername",
    "nutzer",
    "empfänger",
    "empfaenger",
    "empfängeradresse",
    "empfaengeradresse",
    "postfach",
    "adresse",
    "mailadresse",
    "emailadresse",
    "konto",
    "gebruiker",
    "ontvanger",
    "adres",
    "postvak",
    "bruger",
    "modtager",
    "mottagare",
    "adressen",
    // Romance languages
    "utilisateur",
    "destinataire",
    "lutilisateur",
    "ladresse",
    "boite",
    "boîte",
    "compte",
    "usuario",
    "destinatario",
    "buzon",
    "buzón",
    "cuenta",
    "direccion",
    "dirección",
    "utente",
    "casella",
    "indirizzo",
    "usuário",
    "destinatário",
    "conta",
    "endereço",
    "endereco",
    // Slavic languages
    "użytkownik",
    "uzytkownik",
    "adresat",
    "odbiorca",
    "uživatel",
    "uzivatel",
    "schránka",
    "пользователь",
    "получатель",
    "ящик",
    "адрес",
    "адресат",
];

const SYSTEMS: &[&str] =
    &["host", "hosts", "domain", "domains", "domaine", "dominio", "domínio", "домен"];

/// Behind what does not exist.
const STATES: &[&str] = &[
    "unknown",
    "not found",
    "not known",
    "does not exist",
    "doesnt exist",
    "do not exist",
    "dont exist",
    "did not exist",
    "not exist",
    "not exists",
    "no longer exists",
    "no longer exist",
    "no longer valid",
    "no longer available",
    "no longer on server",
    "has been deleted",
    "couldnt be found",
    "could not be found",
    "cannot be found",
    "cant be found",
    "invalid",
    "not valid",
    "nonexistent",
    "non existent",
    "not a known user",
    "not a valid user",
    "not a valid mailbox",
    "not a valid recipient",
    "not a valid address",
    "unbekannt",
    "hier unbekannt",
    "nicht bekannt",
    "existiert nicht",
    "nicht gefunden",
    "nicht vorhanden",
    "ungültig",
    "ungueltig",
    "onbekend",
    "bestaat niet",
    "ukendt",
    "okänd",
    "finns inte",
    "inconnu",
    "inconnue",
    "nexiste pas",
    "n existe pas",
    "introuvable",
    "invalide",
    "no existe",
    "desconocido",
    "desconocida",
    "no encontrado",
    "não existe",
    "nao existe",
    "desconhecido",
    "inexistente",
    "non esiste",
    "inesistente",
    "sconosciuto",
    "sconosciuta",
    "nie istnieje",
    "nieznany",
    "neexistuje",
    "не существует",
    "не найден",
    "неизвестен",
];

/// Before what does not exist.
const ATTRIBUTES: &[&str] = &[
    "unknown",
    "no such",
    "invalid",
    "illegal",
    "nonexistent",
    "non existent",
    "point to non existent",
    "bad destination",
    "not a valid",
    "not a known",
    "not our",
    "doesnt have a",
    "does not have a",
    "unrouteable",
    "unroutable",
    "unbekannter",
    "unbekannte",
    "utilisateur inconnu",
    "ungültige",
    "ungueltige",
    "ungültiger",
];

/// Sentences that say both.
const SENTENCES: &[&str] = &[
    " no mailbox here ",
    " no mailbox by that name ",
    " no user here by that name ",
    " no account by that name here ",
];

/// Names of faults that Exchange writes in one word, and sentences in scripts without blanks.
const NAMES: [&str; 8] = [
    "recipnotfound",
    "recipientnotfound",
    "用户不存在",
    "收件人不存在",
    "邮箱不存在",
    "帐号不存在",
    "ユーザーは存在しません",
    "アドレスは存在しません",
];

/// A domain that takes no mail (RFC 7505), or of which Microsoft 365 or `IronPort` found nothing.
const SYSTEM_SENTENCES: [&str; 6] = [
    " couldnt find any host named ",
    " nullmx ",
    " null mx ",
    " domain does not accept mail ",
    " infodomainnonexistent ",
    " dns hard error looking up ",
];

/// What may stand between.
const FILLERS: &[&str] = &[
    "a",
    "an",
    "the",
    "this",
    "that",
    "which",
    "you",
    "we",
    "it",
    "i",
    "is",
    "was",
    "are",
    "were",
    "has",
    "have",
    "been",
    "be",
    "tried",
    "trying",
    "to",
    "reach",
    "contact",
    "given",
    "specified",
    "entered",
    "named",
    "name",
    "called",
    "here",
    "in",
    "on",
    "at",
    "of",
    "for",
    "with",
    "by",
    "or",
    "email",
    "e",
    "mail",
    "s",
    "smtp",
    "destination",
    "local",
    "internal",
    "valid",
    "such",
    "known",
    "our",
    "system",
    "server",
    "ist",
    "hier",
    "est",
    "es",
    "el",
    "la",
    "le",
    "de",
    "du",
    "diese",
    "dieser",
    "die",
    "der",
    "das",
];

/// Before a word for an address: whose it is, if not the recipient's.
const OTHERS: &[&str] = &[
    "your", "client", "server", "source", "sending", "senders", "return", "reply", "remote",
    "network", "from", "posting", "reverse", "header", "peer", "ip", "my", "us", "origin",
    "bounce", "bounces", "group", "list",
];

const MAX_BETWEEN: usize = 8;

/// What does not exist, as the words of an answer say it; a mailbox before a system.
pub(super) fn of(words: &str, said: &str) -> Option<Gone> {
    let list: Vec<&str> = words.split_whitespace().collect();
    let lower = said.to_lowercase();
    let found = || {
        (0..list.len()).flat_map(|at| {
            let state = starting(&list[at..], STATES)
                .filter(|_| !is_a_guess(&list, at))
                .and_then(|_| before(&list, at));
            let attribute = starting(&list[at..], ATTRIBUTES)
                .filter(|_| !(list[at] == "not" && at > 0 && list[at - 1] == "are"))
                .and_then(|length| behind(&list, at, at + length));
            [state, attribute]
        })
    };
    let is_mailbox = SENTENCES.iter().any(|sentence| words.contains(sentence))
        || NAMES.iter().any(|name| lower.contains(name))
        || found().any(|gone| gone == Some(Gone::Mailbox));
    if is_mailbox {
        return Some(Gone::Mailbox);
    }
    let is_system = SYSTEM_SENTENCES.iter().any(|sentence| words.contains(sentence))
        || found().any(|gone| gone == Some(Gone::System));
    is_system.then_some(Gone::System)
}

/// Whether a word has a part in what says that an address does not exist.
pub(super) fn is_of_it(word: &str) -> bool {
    let is_in =
        |phrases: &[&str]| phrases.iter().any(|phrase| phrase.split(' ').any(|one| one == word));
    names_somebody(word)
        || is_filler(word)
        || is_in(STATES)
        || is_in(ATTRIBUTES)
        || is_in(SENTENCES)
        || is_in(&SYSTEM_SENTENCES)
}

/// Whether a word stands for a mailbox or a system.
pub(super) fn names_somebody(word: &str) -> bool {
    MAILBOXES.contains(&word) || SYSTEMS.contains(&word)
}

/// The length of the longest phrase that a list of words begins with.
fn starting(list: &[&str], phrases: &[&str]) -> Option<usize> {
    let begins = |phrase: &&&str| {
        let mut words = list.iter();
        phrase.split(' ').all(|word| words.next() == Some(&word))
    };
    phrases.iter().filter(begins).map(|phrase| phrase.split(' ').count()).max()
}

/// `may not exist`.
fn is_a_guess(list: &[&str], at: usize) -> bool {
    at > 0 && ["may", "might", "could"].contains(&list[at - 1])
}

/// What a state is said of.
fn before(list: &[&str], at: usize) -> Option<Gone> {
    for index in (at.saturating_sub(MAX_BETWEEN)..at).rev() {
        if let Some(gone) = named(list, index) {
            return is_theirs(list, index).then_some(gone);
        }
        if !is_filler(list[index]) {
            return None;
        }
    }
    None
}

/// What an attribute stands before.
fn behind(list: &[&str], from: usize, at: usize) -> Option<Gone> {
    for index in at..list.len().min(at + 4) {
        if let Some(gone) = named(list, index) {
            let is_theirs = from == 0 || !OTHERS.contains(&list[from - 1]);
            return is_theirs.then_some(gone);
        }
        if !is_filler(list[index]) {
            return None;
        }
    }
    None
}

fn named(list: &[&str], index: usize) -> Option<Gone> {
    if MAILBOXES.contains(&list[index]) {
        Some(Gone::Mailbox)
    } else if SYSTEMS.contains(&list[index]) {
        Some(Gone::System)
    } else {
        None
    }
}

fn is_theirs(list: &[&str], index: usize) -> bool {
    let mut before = list[..index].iter().rev();
    let is_kind = |word: &&&str| ["email", "e", "mail", "the"].contains(*word);
    before.find(|word| !is_kind(word)).is_none_or(|word| !OTHERS.contains(word))
}

fn is_filler(word: &str) -> bool {
    FILLERS.contains(&word) || word.chars().any(|character| character.is_ascii_digit())
}

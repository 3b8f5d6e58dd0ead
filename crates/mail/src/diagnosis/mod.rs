//! Whether what a mail server said proves that no mail can reach an address.
//!
//! Servers set the status of a report (RFC 3464) from the first digits of an answer, or always to
//! 5.0.0, and the answer itself says something else: that the sender's network is blocked, that a
//! mailbox is full. So an address counts as gone only if status and answer agree; in doubt it does
//! not, since a mail to nobody costs less than a person who gets no mail.
//!
//! What speaks against it counts wherever it stands: a command that is not about the recipient
//! (`step`), somebody else's name (`parties`), a code (`codes`), a word (`against`). What speaks
//! for it counts only in what the last server said (`innermost`), only of a mailbox or a domain
//! (`gone`), and without a code only where no word may give another reason (`rest`).

mod against;
mod codes;
mod gone;
mod innermost;
mod parties;
mod rest;
mod step;
mod words;

use codes::{basic_codes, codes};
use gone::Gone;
use innermost::Innermost;
pub use step::Step;
use words::{plain, words};

/// What a server said of a recipient, in a dialogue or as a notification repeats it.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    /// The status of the report, if it has one.
    pub status: &'a str,
    /// What the server answered, if it is known.
    pub answer: &'a str,
    /// Whom the mail is to.
    pub recipient: &'a str,
    /// The sender of the mail, or nothing.
    pub sender: &'a str,
    /// Which command of SMTP was answered, as far as that is known.
    pub step: Step,
}

/// What a status code of RFC 3463 says of an address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// No such mailbox, system or form of address; moved;
    /// no mail is taken there (RFC 3463, RFC 7505).
    Gone,
    /// A permanent failure without a reason, or one that servers use for several: the words decide.
    Open,
    /// For now, or about the mail, its sender or a network.
    Other,
}

/// The longest answer that is read, in bytes: no server answers with more, and whoever makes one up
/// would have it compared word by word.
const MAX_ANSWER: usize = 16_384;

/// Basic codes that say why: too much for the mailbox, a server that closes, a login.
const AGAINST: [&str; 6] = ["552", "521", "530", "534", "535", "538"];

/// Codes that are about the domain of the recipient.
const OF_DOMAINS: [[u16; 3]; 4] = [[5, 1, 2], [5, 1, 10], [5, 4, 4], [5, 4, 310]];

/// What Microsoft 365 says, with the code 5.4.1, of an address that nobody has in a domain that it
/// serves: directory-based edge blocking.
const TENANT: [&str; 2] = [
    " recipient address rejected access denied ",
    " all recipient addresses rejected access denied ",
];

/// What Yahoo says of a mailbox that nobody has, with the basic code of a full one.
const YAHOO: &str = " requested mail action aborted mailbox not found ";

/// Sentences in plainer words: what Postfix writes behind what another server answered, when it
/// asked only for the recipient, and of an address that no server could take; what Orange and
/// Mail.ru write before a reason; and Domino.
const CLEAR: [(&str, &str); 7] = [
    (" in reply to rcpt to command ", " "),
    (" in reply to rcpt to ", " "),
    (" service refuse veuillez essayer plus tard ", " "),
    (" not listed in domino directory ", " not found "),
    (" not listed in public name address book ", " not found "),
    (" bad recipient address syntax ", " invalid recipient "),
    (" message was not accepted ", " "),
];

/// Between two reasons of which a server does not say which one it is.
const CHOICES: [&str; 4] = [" or ", " oder ", " ou ", " oppure "];

/// Says whether an address is gone, by the status of a report and by what the server answered. What
/// a server said in a dialogue has no status.
///
/// The last status code in the answer counts: a server that passes on what another one said writes
/// it behind its own words. When the server had seen the content, an answer without a code that
/// says more may be about that.
pub fn is_gone(said: &Said<'_>) -> bool {
    if said.answer.len() > MAX_ANSWER {
        return false;
    }
    let answer = Answer::of(said);
    // A program on the server's own machine: whatever it says, it is not that the address is gone.
    if answer.kind.eq_ignore_ascii_case("x-unix") || answer.speaks_against(said) {
        return false;
    }
    if answer.is_of_tenant {
        return true;
    }
    let Innermost { said: last, is_quoted } = answer.innermost;
    let own = codes(last).last();
    let mark = |text: &str| {
        let marked = words(text, |word| match word.contains('@') {
            _ if !parties::is_recipient(word, said.recipient) => None,
            true => Some(words::RECIPIENT),
            false => (!gone::is_of_it(word)).then_some(words::NAME),
        });
        CLEAR.iter().fold(marked, |marked, (clear, plain)| marked.replace(clear, plain))
    };
    let marked = mark(last);
    // A code may stand with any words; words alone with none that may give another reason.
    let is_alone = rest::is_known(&marked);
    // Whoever says it as one of several reasons may mean another one.
    let is_choice = sentences(last).any(|sentence| {
        let marked = mark(sentence);
        CHOICES.iter().any(|choice| marked.contains(choice))
            && gone::of(&marked, sentence).is_some()
            && !rest::is_known(&marked)
    });
    let says_gone = match gone::of(&marked, last) {
        Some(Gone::Mailbox) => true,
        Some(Gone::System) => is_of_recipients_domain(said, last, answer.stated, own),
        None => is_ironport(&plain(last), own),
    };
    let is_of_postfix =
        answer.kind.eq_ignore_ascii_case("x-postfix") && !last.contains("://") && !is_quoted;
    match [answer.stated, own].map(|code| code.map(meaning)) {
        // Sendmail as a relay writes 5.1.1 for every 550 before the content, and 5.1.3 for 553.
        [Some(Meaning::Gone), None] => {
            says_gone && is_alone || is_of_postfix || !is_quoted && says_nothing(&plain(last), last)
        }
        [_, Some(Meaning::Gone)] => says_gone && !is_choice || rest::is_empty(&marked),
        _ => {
            (says_gone && is_alone || is_outlook(last, own))
                && answer.step == Step::Recipient
                && !names_nobody(last)
        }
    }
}

/// Whether a status or an answer says that a bounce is for now,
/// or about something else than the address.
pub fn speaks_against(said: &Said<'_>) -> bool {
    said.answer.len() > MAX_ANSWER || Answer::of(said).speaks_against(said)
}

/// An answer, taken apart.
struct Answer<'a> {
    /// The type of the diagnostic code (RFC 3464).
    kind: &'a str,
    whole: &'a str,
    innermost: Innermost<'a>,
    step: Step,
    stated: Option<[u16; 3]>,
    is_of_tenant: bool,
    words: String,
}

impl<'a> Answer<'a> {
    fn of(said: &Said<'a>) -> Self {
        let (kind, whole) = match said.answer.split_once(';') {
            Some((kind, whole)) if !kind.trim().contains(char::is_whitespace) => {
                (kind.trim(), whole)
            }
            _ => ("", said.answer),
        };
        let stated = codes(said.status).next();
        let mut words = plain(whole);
        let is_of_tenant = [stated, codes(whole).last()].contains(&Some([5, 4, 1]))
            && TENANT.iter().any(|sentence| words.contains(sentence));
        if is_of_tenant {
            words = words.replace(" access denied ", " ");
        }
        Self {
            kind,
            whole,
            innermost: Innermost::of(whole),
            step: said.step.max(Step::of(whole)),
            stated,
            is_of_tenant,
            words,
        }
    }

    fn speaks_against(&self, said: &Said<'_>) -> bool {
        let mut codes = self.stated.into_iter().chain(codes(self.whole).last());
        self.step == Step::Sender
            || codes.any(|code| meaning(code) == Meaning::Other)
            || basic_codes(self.whole).any(is_against) && !self.words.contains(YAHOO)
            || against::has(&self.words)
            || parties::is_about_another(self.whole, said.recipient)
            || parties::names_us(self.innermost.said, said.sender, said.recipient)
    }
}

fn meaning(code: [u16; 3]) -> Meaning {
    match code {
        [5, 1, 1 | 2 | 3 | 6 | 10] => Meaning::Gone,
        // 5.1.351: the words of the next server follow. 5.4.4 and 5.4.310: no route, among others
        // to a domain that nobody has.
        [5, 0, _] | [5, 1 | 3 | 4 | 5, 0] | [5, 1, 351] | [5, 4, 1 | 4 | 310] => Meaning::Open,
        // 5.2.1 is also said of mailboxes that get too much, 5.1.7 and 5.1.8 are about the sender.
        _ => Meaning::Other,
    }
}

fn is_against(code: &str) -> bool {
    code.starts_with('4') || AGAINST.contains(&code)
}

/// Whether a host or a domain that does not exist is the recipient's, and not that of the sender,
/// which a server looks up, too. What has no basic code is no answer of another server.
fn is_of_recipients_domain(
    said: &Said<'_>,
    last: &str,
    stated: Option<[u16; 3]>,
    own: Option<[u16; 3]>,
) -> bool {
    let mut codes = [stated, own].into_iter().flatten();
    codes.any(|code| OF_DOMAINS.contains(&code))
        || basic_codes(last).next().is_none()
        || parties::names_domain(last, said.recipient)
        || plain(last).contains(" recipient address rejected ")
}

/// `IronPort` of Cisco refuses an address that is not in its directory with these words alone.
fn is_ironport(words: &str, answered: Option<[u16; 3]>) -> bool {
    answered == Some([5, 1, 0])
        && words.ends_with(" address rejected ")
        && !words.contains(" recipient address ")
}

/// Outlook.com refuses an address that nobody has with the words of RFC 5321 for any 550, and with
/// this code and the tag of a server; in an answer about something else there are more words.
fn is_outlook(said: &str, answered: Option<[u16; 3]>) -> bool {
    let mut depth = 0_usize;
    let is_outside = |character: &char| {
        match character {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    };
    let words = plain(&said.chars().filter(is_outside).collect::<String>());
    answered == Some([5, 5, 0])
        && said.is_ascii()
        && words.replace(" requested action not taken ", " ") == " 550 mailbox unavailable "
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split(". ").flat_map(|text| text.split("! ")).flat_map(|text| text.split("; "))
}

/// Whether there is nothing but a basic code and addresses in an answer, which may be unknown.
fn says_nothing(words: &str, said: &str) -> bool {
    let is_code = |word: &str| word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit());
    said.is_ascii() && words.split_whitespace().all(|word| is_code(word) || word == "unknown")
}

/// Whether an answer has a place for an address and nothing in it, as filters of some networks for
/// mobile telephones write it.
fn names_nobody(said: &str) -> bool {
    said.match_indices(" : ")
        .any(|(at, _)| basic_codes(said).any(|code| said[..at].ends_with(code)))
}

#[cfg(test)]
mod ambiguous_tests;
#[cfg(test)]
mod doubtful_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod word_tests;

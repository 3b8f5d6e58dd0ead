//! Which command of SMTP a server answered, by what mail servers write beside the answer.

/// Whom or what an answer can be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The recipient, as far as the notification says.
    Recipient,
    /// The content, which the server had seen.
    Content,
    /// The machine that sends or the sender of the mail: the server had not heard of the recipient.
    Sender,
}

/// What stands before the name of a command: Postfix, sendmail and Courier, `MDaemon`, Exim, dma,
/// and others in words of their own.
const BEFORE: [&str; 13] = [
    "reply to ",
    "response to ",
    "response to the ",
    " command: ",
    " error in ",
    " sending ",
    " nach ",
    ">>> ",
    "--> ",
    " after ",
    " after pipelined ",
    "did not like our ",
    " rejected at ",
];

const OF_SENDER: [&str; 9] = [
    "mail from",
    "mail command",
    "ehlo",
    "helo",
    "lhlo",
    "starttls",
    "initial connection",
    "connection establishment",
    "auth command",
];

const OF_CONTENT: [&str; 7] =
    ["data", "end of data", "end of message", "bdat", "final data", "final dot", "the final dot"];

/// Sentences that name the step without its command: Postfix and qmail.
const SENTENCES_OF_SENDER: [&str; 7] = [
    "refused to talk to me",
    "my name was rejected",
    "rejected our helo",
    "rejected our ehlo",
    "greeting failed",
    "sender was rejected",
    "auth was rejected",
];
const SENTENCES_OF_CONTENT: [&str; 2] = ["failed after i sent the message", "message was rejected"];

impl Step {
    /// The step that a text names; of several the one that says least of the recipient.
    ///
    /// Servers wrap lines within these words.
    pub fn of(text: &str) -> Self {
        let mut plain = String::from(" ");
        for word in text.split_whitespace() {
            plain.push_str(&word.to_ascii_lowercase());
            plain.push(' ');
        }
        let names = |commands: &[&str]| {
            BEFORE.iter().any(|before| {
                plain.match_indices(before).any(|(at, _)| {
                    let rest = &plain[at + before.len()..];
                    commands.iter().any(|command| is_command(rest, command))
                })
            })
        };
        let says = |sentences: &[&str]| sentences.iter().any(|sentence| plain.contains(sentence));
        if names(&OF_SENDER) || says(&SENTENCES_OF_SENDER) {
            Self::Sender
        } else if names(&OF_CONTENT) || says(&SENTENCES_OF_CONTENT) {
            Self::Content
        } else {
            Self::Recipient
        }
    }
}

fn is_command(text: &str, command: &str) -> bool {
    text.strip_prefix(command)
        .is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric()))
}

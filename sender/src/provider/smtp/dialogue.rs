//! What is said to a mail server about a mail, command by command: what a reply means depends on
//! the command.

use std::time::{Duration, Instant};

use super::envelope::{Letter, Misfit, stuffed};
use super::extensions::Extensions;
use super::reply::Reply;
use super::stream::{Lost, Stream};
use crate::provider::Progress;
use crate::provider::refusal::Step;

/// How long the content may take at least, once the server has asked for it.
const CONTENT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the server may take to forget the beginning of a mail. A new connection does as well.
const RESET_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a farewell may take: nothing depends on it.
const QUIT_TIMEOUT: Duration = Duration::from_millis(250);

/// What helps where a server takes fewer connections at a time than there are.
const FEWER: &str = "; set connections in [smtp] to so many as the server takes at a time";

/// Whether a server refuses a connection because of the others.
fn counts_connections(reply: &Reply) -> bool {
    let text = reply.text().to_ascii_lowercase();
    text.contains("concurrent")
        || text.contains("simultaneous")
        || (text.contains("too many")
            && ["connection", "session"].iter().any(|of| text.contains(of)))
}

/// A connection to a server that was greeted.
pub(super) struct Dialogue {
    stream: Stream,
    pub(super) offers: Extensions,
    /// The name that the server was greeted with.
    pub(super) name: String,
    pub(super) greeted: Greeted,
    /// Whether the server still has the beginning of a mail.
    needs_reset: bool,
    /// Whether another command would get a reply of its own.
    is_usable: bool,
}

/// How a server was greeted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Greeted {
    /// Not yet, or in vain.
    No,
    /// By EHLO, after which it has said what it offers.
    Ehlo,
    /// By HELO, so that nobody knows what it offers.
    Helo,
    /// By EHLO, over which it ended the connection.
    Cut,
}

/// What became of a mail.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The server has it.
    Accepted(Reply),
    /// The server refused it at a step.
    Refused(Step, Reply),
    /// The same with the parameters of DSN, and the connection ended before it could be tried
    /// without them.
    RefusedWithDsn(Step, Reply),
    /// The server was not asked.
    Misfit(Misfit),
    /// There was no reply at a step before the end of the content: the mail certainly was not
    /// accepted.
    Lost(Step, Lost),
    /// The same, because others need the place and the step was not waited for any longer. It says
    /// nothing of the server.
    Left(Step),
    /// It cannot be recorded that the mail may be accepted, so it was not ended.
    Unrecorded(String),
    /// Nobody knows.
    InDoubt(String),
}

/// Why a server does not greet.
#[derive(Debug)]
pub(super) struct Ungreeted {
    pub(super) reason: String,
    /// Whether it says that there are too many connections.
    pub(super) is_of_others: bool,
}

impl From<String> for Ungreeted {
    fn from(reason: String) -> Self {
        Self { reason, is_of_others: false }
    }
}

impl Dialogue {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            offers: Extensions::default(),
            name: String::new(),
            greeted: Greeted::No,
            needs_reset: false,
            is_usable: true,
        }
    }

    pub(super) fn into_stream(self) -> Stream {
        self.stream
    }

    pub(super) fn is_usable(&self) -> bool {
        self.is_usable
    }

    pub(super) fn ends(&self) -> std::io::Result<(std::net::SocketAddr, std::net::SocketAddr)> {
        self.stream.ends()
    }

    /// Waits to be greeted. A proxy may greet before the server does.
    ///
    /// # Errors
    /// Why the server takes no mails.
    pub(super) fn greeting(&mut self, deadline: Instant) -> Result<(), Ungreeted> {
        let failed = |lost: Lost| format!("no greeting: {lost}");
        let mut reply = self.stream.read(deadline).map_err(failed)?;
        if reply.code == 220 && self.stream.has_unread() {
            reply = self.stream.read(deadline).map_err(failed)?;
            if reply.is_completion() {
                return Err(failed(Lost::OutOfStep).into());
            }
        }
        self.is_usable &= reply.is_whole;
        if !reply.is_ready() {
            let is_of_others = counts_connections(&reply);
            let advice = if is_of_others { FEWER } else { "" };
            let reason = format!("the greeting is {reply}{advice}");
            return Err(Ungreeted { reason, is_of_others });
        }
        if self.stream.has_unread() { Err(failed(Lost::OutOfStep).into()) } else { Ok(()) }
    }

    /// Greets the server, and hears what it offers.
    ///
    /// # Errors
    /// Why it takes no mails.
    pub(super) fn hello(&mut self, name: &str, deadline: Instant) -> Result<(), String> {
        name.clone_into(&mut self.name);
        self.offers = Extensions::default();
        let line = format!("EHLO {name}");
        let reply = self.ask(&line, Self::reply_after_greeting, deadline).map_err(|lost| {
            if matches!(lost, Lost::Closed) {
                self.greeted = Greeted::Cut;
            }
            format!("no answer to EHLO: {lost}")
        })?;
        if reply.is_completion() {
            (self.offers, self.greeted) = (Extensions::of(&reply), Greeted::Ehlo);
            return Ok(());
        }
        // A server from before 1993 knows only HELO (RFC 5321, 3.2), and not all say so by 500.
        if reply.code / 100 == 5 && self.is_usable && self.helo(name, deadline).is_ok() {
            return Ok(());
        }
        Err(format!("EHLO {name} is refused: {reply}"))
    }

    /// Greets a server that does not take EHLO, and offers nothing.
    ///
    /// # Errors
    /// Why it takes no mails.
    pub(super) fn helo(&mut self, name: &str, deadline: Instant) -> Result<(), String> {
        name.clone_into(&mut self.name);
        self.greeted = Greeted::Helo;
        let reply = self.command(&format!("HELO {name}"), deadline);
        let reply = reply.map_err(|lost| format!("no answer to HELO: {lost}"))?;
        if reply.is_completion() { Ok(()) } else { Err(format!("HELO {name} is refused: {reply}")) }
    }

    /// Writes a line and reads the reply to it.
    pub(super) fn command(&mut self, line: &str, deadline: Instant) -> Result<Reply, Lost> {
        self.ask(line, Self::reply, deadline)
    }

    fn ask(
        &mut self,
        line: &str,
        read: fn(&mut Self, Instant) -> Result<Reply, Lost>,
        deadline: Instant,
    ) -> Result<Reply, Lost> {
        let written = self.stream.write(format!("{line}\r\n").as_bytes(), deadline);
        self.is_usable &= written.is_ok();
        // What a server that left has said before, such as 421, tells more.
        match (read(self, deadline), written) {
            (Ok(reply), _) => Ok(reply),
            (Err(_), Err(lost)) | (Err(lost), Ok(())) => Err(lost),
        }
    }

    /// Reads a reply. Nothing may follow it: that would be taken for the reply to the next command.
    fn reply(&mut self, deadline: Instant) -> Result<Reply, Lost> {
        let reply = self.stream.read(deadline);
        self.checked(reply)
    }

    /// The same after a second greeting, which came late.
    fn reply_after_greeting(&mut self, deadline: Instant) -> Result<Reply, Lost> {
        match self.stream.read(deadline) {
            Ok(greeting) if greeting.code == 220 && greeting.is_whole => self.reply(deadline),
            reply => self.checked(reply),
        }
    }

    fn checked(&mut self, reply: Result<Reply, Lost>) -> Result<Reply, Lost> {
        self.is_usable &= reply.as_ref().is_ok_and(|reply| reply.is_whole && reply.code != 421);
        let reply = reply?;
        if self.stream.has_unread() {
            self.is_usable = false;
            if !reply.is_refusal() {
                return Err(Lost::OutOfStep);
            }
        }
        Ok(reply)
    }

    /// Sends a mail; until the server asks for its content before `deadline`.
    pub(super) fn send(
        &mut self,
        letter: &Letter<'_>,
        progress: &dyn Progress,
        deadline: Instant,
        final_patience: Duration,
    ) -> Outcome {
        if let Some(misfit) = letter.misfit(&self.offers) {
            return Outcome::Misfit(misfit);
        }
        let limit = progress.enter_envelope();
        let until = limit.map_or(deadline, |limit| deadline.min(Instant::now() + limit));
        match self.envelope(letter, until) {
            Ok(()) => {}
            // RSET has a limit of its own.
            Err(Outcome::Lost(step, Lost::Late)) if until < deadline && step != Step::Hello => {
                return Outcome::Left(step);
            }
            Err(outcome) => return outcome,
        }
        let deadline = deadline.max(Instant::now() + CONTENT_TIMEOUT);
        if let Err(outcome) = self.content(letter, deadline) {
            return outcome;
        }
        let patience = match progress.enter_doubt() {
            Ok(limit) => limit.map_or(final_patience, |limit| final_patience.min(limit)),
            Err(reason) => {
                self.is_usable = false;
                return Outcome::Unrecorded(reason);
            }
        };
        let written = self.stream.write(b".\r\n", deadline);
        let until = Instant::now() + patience;
        let mut reply = written.and_then(|()| self.stream.read_of_content(until));
        // A filter before the server may ask for the content, too, and be heard late.
        if reply.as_ref().is_ok_and(|reply| reply.is_go_ahead() && reply.is_whole) {
            reply = self.stream.read_of_content(until);
        }
        self.of_end(reply)
    }

    /// What the reply to the final dot means.
    fn of_end(&mut self, reply: Result<Reply, Lost>) -> Outcome {
        let reply = match reply {
            Ok(reply) => reply,
            Err(lost) => {
                self.is_usable = false;
                return Outcome::InDoubt(format!("no answer to the content: {lost}"));
            }
        };
        self.is_usable &= reply.is_whole && reply.code != 421 && !self.stream.has_unread();
        if reply.is_contradictory || !(reply.is_completion() || reply.is_refusal()) {
            self.is_usable = false;
            return Outcome::InDoubt(format!(
                "the answer to the content is none of that command: {reply}"
            ));
        }
        if reply.is_completion() {
            return Outcome::Accepted(reply);
        }
        self.needs_reset = true;
        Outcome::Refused(Step::Content, reply)
    }

    /// Gives sender and recipient.
    fn envelope(&mut self, letter: &Letter<'_>, deadline: Instant) -> Result<(), Outcome> {
        if std::mem::take(&mut self.needs_reset) {
            let now = Instant::now();
            let left = deadline.saturating_duration_since(now);
            // Enough is left for another connection.
            let reply = self.command("RSET", now + RESET_TIMEOUT.min(left / 4));
            let reply = reply.map_err(|lost| Outcome::Lost(Step::Hello, lost))?;
            if !reply.is_completion() {
                self.is_usable = false;
                return Err(Outcome::Lost(Step::Hello, Lost::OutOfStep));
            }
        }
        let sender = if letter.needs_utf8() { Step::SenderUtf8 } else { Step::Sender };
        for (step, command) in [
            (sender, letter.mail(&self.offers)),
            (Step::Recipient, letter.rcpt(&self.offers)),
            (Step::Data, "DATA".to_owned()),
        ] {
            let reply =
                self.command(&command, deadline).map_err(|lost| Outcome::Lost(step, lost))?;
            let is_good =
                if step == Step::Data { reply.is_go_ahead() } else { reply.is_completion() };
            if is_good {
                continue;
            }
            self.needs_reset = true;
            if !reply.is_refusal() {
                self.is_usable = false;
                return Err(Outcome::Lost(step, Lost::OutOfStep));
            }
            // Some servers offer DSN and do not know its parameters.
            let is_of_parameters = matches!(reply.code, 501 | 504 | 555) && step != Step::Data;
            if is_of_parameters && std::mem::take(&mut self.offers.dsn) {
                return self.envelope_without_dsn(letter, deadline, step, reply);
            }
            return Err(Outcome::Refused(step, reply));
        }
        Ok(())
    }

    /// Gives them without the parameters of DSN, with which they were refused.
    fn envelope_without_dsn(
        &mut self,
        letter: &Letter<'_>,
        deadline: Instant,
        step: Step,
        refused: Reply,
    ) -> Result<(), Outcome> {
        if !self.is_usable {
            return Err(Outcome::RefusedWithDsn(step, refused));
        }
        match self.envelope(letter, deadline) {
            Err(Outcome::Lost(Step::Hello | Step::Sender | Step::SenderUtf8, _)) => {
                Err(Outcome::RefusedWithDsn(step, refused))
            }
            // What is refused without them, too, says nothing against them, which other mails are
            // to have.
            outcome => {
                self.offers.dsn =
                    matches!(&outcome, Err(Outcome::Refused(again, _)) if *again == step);
                outcome
            }
        }
    }

    /// Writes the content without its end. A reply that is there already is none to the end.
    fn content(&mut self, letter: &Letter<'_>, deadline: Instant) -> Result<(), Outcome> {
        let text = stuffed(letter.content);
        let written = self.stream.write(text.as_bytes(), deadline);
        let lost = match written.and_then(|()| self.stream.is_quiet()) {
            Ok(true) => return Ok(()),
            Ok(false) => None,
            Err(lost) => Some(lost),
        };
        self.is_usable = false;
        // It may have said why it does not want the rest.
        match self.stream.read(Instant::now() + QUIT_TIMEOUT) {
            Ok(reply) if reply.is_refusal() => Err(Outcome::Refused(Step::Content, reply)),
            _ => Err(Outcome::Lost(Step::Content, lost.unwrap_or(Lost::OutOfStep))),
        }
    }

    /// Says goodbye, where that can be heard, and closes the connection.
    pub(super) fn quit(mut self) {
        let deadline = Instant::now() + QUIT_TIMEOUT;
        if self.is_usable && self.stream.write(b"QUIT\r\n", deadline).is_ok() {
            self.stream.read(deadline).ok();
            self.stream.close(deadline);
        }
    }
}

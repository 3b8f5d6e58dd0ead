//! Mail servers, by SMTP (RFC 5321).
//!
//! The client is our own, because mails are lost or doubled at its edges: what a server says is
//! bounded in size and time, three digits decide whatever follows them, and nothing that was said
//! in clear is believed once the connection is encrypted.
//!
//! `connect` opens a connection (`hello`, `tls`, `auth`, `gate`), `dialogue` gives a mail to the
//! server (`envelope`, `extensions`), `stream` writes and reads (`reply`), and `receipt` is what
//! remains. `sharing` has the connections where the server takes few at a time.

mod auth;
mod config;
mod connect;
mod dialogue;
mod envelope;
mod extensions;
mod gate;
mod hello;
mod receipt;
mod reply;
mod sharing;
mod stream;
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mailroom_mail::{Error, ReturnPath};

use super::refusal::{self, Said, Step};
use super::{About, Connection, PreparedMail, Progress, Provider, Suspicion, Verdict};
use crate::mail::Mail;
use crate::message;
use crate::rate::Rate;
use auth::Credentials;
pub(crate) use config::SmtpConfig;
use config::TlsMode;
use connect::Unopened;
use dialogue::{Dialogue, Greeted, Outcome};
use envelope::{Letter, Misfit};
use gate::Gate;
use reply::Reply;
use sharing::{Place, Sharing, Turn};
use stream::Lost;
use tls::Tls;

/// How long a connection may be unused. Common servers wait for five minutes; some proxies wait for
/// one.
const MAX_IDLE: Duration = Duration::from_secs(30);

/// So many mails in a row a connection may see refused until another one takes its place. Servers
/// count errors: Postfix answers each command a second late after ten, until it accepts a mail, so
/// that bad addresses of one person would hold up everybody's mails.
const MAX_REFUSED: u32 = 8;

/// The pause of a mail that was not waited for because others needed its connection.
const LEFT_PAUSE: Duration = Duration::from_secs(60);

/// The pause of a mail that another server of the same name may take.
const OTHER_SERVER_PAUSE: Duration = Duration::from_secs(60);

/// The pause of a mail for which no connection became free.
const BUSY_PAUSE: Duration = Duration::from_secs(10);

/// A limit of fewer bytes is no fault of one mail.
const SMALL: u64 = 100_000;

/// A mail server.
pub(crate) struct Smtp {
    server: String,
    port: u16,
    mode: TlsMode,
    tls: Option<Tls>,
    credentials: Option<Credentials>,
    gate: Gate,
    return_path: Option<ReturnPath>,
    hello: Option<String>,
    connections: usize,
    mails_per_connection: u32,
    timeout: Duration,
    final_timeout: Duration,
    rate: Option<Rate>,
    /// Whether a connection has offered SMTPUTF8: of several servers behind one name each may offer
    /// something else.
    has_offered_utf8: AtomicBool,
    sharing: Arc<Sharing>,
}

impl Smtp {
    pub(crate) fn new(config: &SmtpConfig) -> Result<Self, Error> {
        config.check()?;
        Ok(Self {
            server: config.server.clone(),
            port: config.port(),
            mode: config.tls,
            tls: config.encryption()?,
            credentials: config.credentials()?,
            gate: Gate::default(),
            return_path: config.return_path()?,
            hello: config.hello.clone(),
            connections: config.connections,
            mails_per_connection: config.mails_per_connection,
            timeout: config.timeout(),
            final_timeout: config.final_timeout(),
            rate: config.rate,
            has_offered_utf8: AtomicBool::new(false),
            sharing: Arc::default(),
        })
    }
}

/// The verdict of what became of a mail.
fn verdict_of(outcome: Outcome, letter: &Letter<'_>) -> Verdict {
    match outcome {
        Outcome::Accepted(reply) => Verdict::Sent(receipt::of(&reply)),
        Outcome::Refused(step, reply) | Outcome::RefusedWithDsn(step, reply) => {
            of_refusal(step, &reply, letter)
        }
        Outcome::Misfit(Misfit::Sender(reason)) => {
            Verdict::Unavailable { after: None, reason: reason.to_owned() }
        }
        Outcome::Misfit(Misfit::Address(reason)) => Verdict::dead(reason, About::Content),
        Outcome::Misfit(Misfit::Utf8) if !letter.from.is_ascii() => {
            let reason = "the sender's address is not ASCII, which the server does not take";
            Verdict::Unavailable { after: None, reason: reason.to_owned() }
        }
        Outcome::Misfit(Misfit::Utf8) => {
            let reason = "its address is not ASCII, which the server does not take";
            Verdict::dead(reason, About::Content)
        }
        Outcome::Misfit(Misfit::Size { size, most }) => {
            let reason = format!("the mail has {size} bytes, and the server takes {most}");
            // Who takes no mail of usual size takes none at all.
            let about = if most < SMALL { About::Unplaced } else { About::Content };
            Verdict::dead(reason, about)
        }
        Outcome::Lost(step, lost) => of_loss(step, &lost),
        Outcome::Left(step) => {
            let reason = format!("{}: no answer while others need the connection", name_of(step));
            Verdict::Postponed { after: Some(LEFT_PAUSE), reason }
        }
        Outcome::Unrecorded(reason) => Verdict::Unavailable { after: None, reason },
        Outcome::InDoubt(reason) => Verdict::InDoubt { reason },
    }
}

/// A loss before the recipient is named is the server's. Afterwards it may be the mail's: a server
/// that asks the recipient's server answers late for a dead domain, and some filters close the
/// connection over a mail.
fn of_loss(step: Step, lost: &Lost) -> Verdict {
    let reason = format!("{}: {lost}", name_of(step));
    if matches!(step, Step::Hello | Step::Sender) {
        Verdict::Unavailable { after: None, reason }
    } else {
        Verdict::Suspected { suspicion: Suspicion::Silence, after: None, reason }
    }
}

fn of_refusal(step: Step, reply: &Reply, letter: &Letter<'_>) -> Verdict {
    let text = reply.text();
    let (recipient, sender) = (letter.to, letter.from);
    let said = Said { step, code: reply.code, name: "", text: &text, recipient, sender };
    let reason = match step {
        Step::Sender | Step::SenderUtf8 => format!("{}: {reply}", name_of(step)),
        _ => reply.to_string(),
    };
    // What is missing might have said whose fault it is.
    if !(reply.is_whole || step == Step::Sender) {
        let reason = format!("{reason}: the reply did not come whole");
        return Verdict::Suspected { suspicion: Suspicion::Silence, after: None, reason };
    }
    // Who says yes and no refuses nothing for ever.
    if reply.is_contradictory && reply.code >= 500 {
        let reason = format!("{reason}: the lines of the reply say different things");
        return Verdict::Suspected { suspicion: Suspicion::Silence, after: None, reason };
    }
    refusal::verdict(&said, None, reason)
}

fn name_of(step: Step) -> &'static str {
    match step {
        Step::Sender | Step::SenderUtf8 => "MAIL FROM",
        Step::Recipient => "RCPT TO",
        Step::Data => "DATA",
        Step::Content => "the content",
        _ => "the connection",
    }
}

impl Provider for Smtp {
    fn name(&self) -> &'static str {
        "smtp"
    }

    fn payload(&self, mail: &Mail) -> Result<String, String> {
        Ok(message::encode(mail))
    }

    fn envelope_sender(&self, mail: &Mail) -> Option<String> {
        self.return_path.as_ref().map(|path| path.of(mail.to.address().as_ref()))
    }

    fn connections(&self) -> usize {
        self.connections
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout)
    }

    fn rate(&self) -> Option<Rate> {
        self.rate
    }

    fn connection(&self) -> Box<dyn Connection + '_> {
        Box::new(Session { smtp: self, open: None })
    }

    fn check(&self) -> Result<Option<String>, String> {
        let opened = self.open(Instant::now() + self.timeout);
        let dialogue = opened.map_err(|unopened| unopened.reason)?;
        let is_elsewhere =
            dialogue.ends().is_ok_and(|(_, peer)| !peer.ip().to_canonical().is_loopback());
        let warning = (is_elsewhere && hello::is_loopback(&dialogue.name)).then(|| {
            format!(
                "the server is greeted as {}, which only this machine is; many servers refuse \
                 that: set hello in [smtp] to this machine's name",
                dialogue.name
            )
        });
        dialogue.quit();
        Ok(warning)
    }

    fn probe(&self) -> Result<(), String> {
        let opened = self.open(Instant::now() + self.timeout);
        opened.map(Dialogue::quit).map_err(|unopened| {
            self.report_refusal(&unopened);
            unopened.reason
        })
    }
}

/// One connection, which outlives mails.
struct Session<'a> {
    smtp: &'a Smtp,
    open: Option<Open>,
}

struct Open {
    dialogue: Dialogue,
    mails: u32,
    /// How many of them were refused since one was accepted.
    refused: u32,
    last_used: Instant,
    _place: Place,
}

impl Connection for Session<'_> {
    fn deliver(
        &mut self,
        prepared: &PreparedMail,
        payload: &str,
        progress: &dyn Progress,
    ) -> Verdict {
        let mut deadline = Instant::now() + self.smtp.timeout;
        let latest_turn = Instant::now() + self.smtp.timeout / 2;
        let letter = Letter { from: &prepared.envelope_sender, to: &prepared.to, content: payload };
        let (mut is_second, mut is_without_dsn) = (false, false);
        loop {
            self.idle();
            let turn =
                self.open.take().map_or_else(|| self.smtp.sharing.enter(latest_turn), Turn::Free);
            let mut open = match turn {
                Turn::Free(open) if !open.is_fresh() => {
                    open.dialogue.quit();
                    continue;
                }
                Turn::Free(open) => {
                    // It may have been waited for.
                    deadline = deadline.max(Instant::now() + self.smtp.timeout);
                    open
                }
                Turn::New(place) => match self.smtp.open(deadline) {
                    Ok(dialogue) => {
                        // A server that takes its time over each step would never get a mail.
                        deadline = Instant::now() + self.smtp.timeout;
                        let offers_utf8 = dialogue.offers.smtputf8;
                        self.smtp.has_offered_utf8.fetch_or(offers_utf8, Ordering::Relaxed);
                        Open::new(dialogue, place)
                    }
                    Err(unopened) => {
                        let Unopened { is_of_connection, is_of_others, .. } = unopened;
                        let sharing = &self.smtp.sharing;
                        if is_of_connection && sharing.refuse(place, is_of_others, Instant::now()) {
                            continue;
                        }
                        self.smtp.report_refusal(&unopened);
                        let Unopened { after, reason, .. } = unopened;
                        return Verdict::Unavailable { after, reason };
                    }
                },
                Turn::Late => {
                    let reason = "the server takes no more connections, and these are in use";
                    let reason = reason.to_owned();
                    return Verdict::Postponed { after: Some(BUSY_PAUSE), reason };
                }
            };
            open.dialogue.offers.dsn &= !is_without_dsn;
            let patience = self.smtp.final_timeout;
            let outcome = open.dialogue.send(&letter, progress, deadline, patience);
            let is_utf8 = matches!(outcome, Outcome::Misfit(Misfit::Utf8));
            if matches!(outcome, Outcome::RefusedWithDsn(..)) {
                is_without_dsn = true;
                continue;
            }
            // A connection for which too little time is left would look like an outage.
            let left = deadline.saturating_duration_since(Instant::now());
            let is_stale = open.mails > 0 && left >= self.smtp.timeout / 2 && is_stale(&outcome);
            if is_stale || is_utf8 && !is_second {
                is_second |= is_utf8;
                open.dialogue.quit();
                continue;
            }
            open.note(&outcome);
            if matches!(outcome, Outcome::Accepted(_)) {
                self.smtp.sharing.accept(Instant::now());
            }
            // What it refused without DSN, too, is no reason to send others without it.
            let is_over = is_utf8
                || matches!(
                    &outcome,
                    Outcome::Refused(_, reply) if is_without_dsn || is_of_session(reply)
                );
            let may_be_taken = open.dialogue.greeted == Greeted::Helo
                || self.smtp.has_offered_utf8.load(Ordering::Relaxed);
            let mut verdict = verdict_of(outcome, &letter);
            if is_utf8
                && may_be_taken
                && let Verdict::Dead(refusal) = verdict
            {
                let reason = format!("{} on this connection", refusal.reason);
                verdict = Verdict::Retry { after: Some(OTHER_SERVER_PAUSE), reason };
            }
            let is_full =
                open.mails >= self.smtp.mails_per_connection || open.refused >= MAX_REFUSED;
            if !is_over && !is_full {
                self.open = self.smtp.sharing.share(open, Instant::now());
            } else {
                open.dialogue.quit();
            }
            return verdict;
        }
    }

    fn idle(&mut self) {
        let old = self.open.take_if(|open| !open.is_fresh());
        for open in old.into_iter().chain(self.smtp.sharing.take(false)) {
            open.dialogue.quit();
        }
        let open = self.open.take();
        self.open = open.and_then(|open| self.smtp.sharing.share(open, Instant::now()));
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        for open in self.open.take().into_iter().chain(self.smtp.sharing.take(true)) {
            open.dialogue.quit();
        }
    }
}

impl Open {
    fn new(dialogue: Dialogue, place: Place) -> Self {
        Self { dialogue, mails: 0, refused: 0, last_used: Instant::now(), _place: place }
    }

    /// It has had another mail.
    fn note(&mut self, outcome: &Outcome) {
        self.mails += 1;
        self.last_used = Instant::now();
        match outcome {
            Outcome::Accepted(_) => self.refused = 0,
            Outcome::Refused(..) => self.refused += 1,
            _ => {}
        }
    }

    fn is_fresh(&self) -> bool {
        self.last_used.elapsed() < MAX_IDLE && self.dialogue.is_usable()
    }
}

/// Whether a connection that has had other mails may be the reason that this one did not go out,
/// which the server certainly did not accept: another connection is tried at once. It may have
/// ended, or its server counts mails or recipients, or is the one behind a balancer that is broken.
fn is_stale(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Lost(Step::Hello, _) | Outcome::Refused(Step::Sender | Step::SenderUtf8, _) => {
            true
        }
        Outcome::Lost(Step::Content, _) => false,
        Outcome::Lost(_, lost) => !matches!(lost, Lost::Late),
        Outcome::Refused(Step::Recipient | Step::Data | Step::Content, reply) => {
            reply.code == 421 || is_of_session(reply)
        }
        _ => false,
    }
}

/// Whether a server refuses a mail because of those before it on the same connection. Each of ours
/// has one recipient, so that "too many recipients" (RFC 3463, X.5.3) are those of all.
fn is_of_session(reply: &Reply) -> bool {
    let text = reply.text().to_ascii_lowercase();
    let is_enhanced = ["4.5.3", "5.5.3"].iter().any(|code| text.starts_with(code));
    is_enhanced
        || ["session", "this connection", "per connection"].iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests;

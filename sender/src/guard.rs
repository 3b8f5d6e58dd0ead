//! Refusals of which it is not certain whether they are the recipients' or our own fault.
//!
//! Pure policy: the caller passes the times in. A mail that was not accepted for such a reason
//! shows little alone. If recipients of three domains fare alike and nobody's mail is accepted
//! between, it is about us; of words that are about us already the first one is. If a mail is
//! accepted, it was about them. Others are still tried meanwhile, each once: somebody may have
//! given many such addresses on purpose.
//!
//! Since an acceptance a reason is believed for an hour to be the recipients' own, but only of
//! those who met it before and of a few others between two acceptances: the same can be our own
//! fault later, and then nothing is accepted any more.
//!
//! Words about us can be a stranger's, other ones each time, where a server passes on what another
//! one said. So a recipient whose refusal seemed to be about us until a mail was accepted is
//! believed for an hour to be the reason of whatever is said of us over it; of a domain with
//! several such recipients, some others are, too.
//!
//! After a few such openings by several domains, words about us over domains that accepted nothing
//! yet open no circuit, as long as mails of others are accepted.
//!
//! That an address does not exist is believed at once of one, and not of ten in a row, be they of
//! one domain: a relay without its table of recipients, or whose resolver fails, says so of
//! everybody. From then on such refusals are decided on like those of no known reason, until a mail
//! is accepted.
//!
//! A recipient over which it was said that no mail can go out leaves every other trial to others,
//! until a mail is accepted: its mail may always be the first one that is tried. A limit of an HTTP
//! API (429) is nearly always everybody's; since an acceptance it is believed for an hour to be a
//! recipient's own, but only of those over which it was told before.
//!
//! A long pause that is asked for over one recipient is a minute of everybody's, until a recipient
//! of another domain gets the same answer.

mod alarms;
mod disarmed;
mod kind;
mod pauses;
mod turns;

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use mailroom_mail::address::domain_of;

use crate::provider::refusal::signature;
use crate::provider::{About, Refusal, Suspicion, Verdict};
use alarms::Alarms;
use disarmed::{Disarmed, MAX_REFUSED};
use kind::{DOMAINS, Kind, MISSING, SILENCE, Side};
use pauses::{MAX_OF_ONE, Pauses};
use turns::Turns;

/// How long such refusals are the recipients' own, once a mail was accepted between them.
const DISARMED: Duration = Duration::from_secs(3_600);

/// How long the refusal of a recipient may stay without a place, where too few others are refused.
const UNDECIDED: Duration = Duration::from_secs(3_600);

/// How many other recipients are still tried, once each, when refusals seem to be about us: one
/// whose mail is accepted proves the contrary, and somebody may have given many bad addresses on
/// purpose.
const TRIALS: usize = 2_000;

/// How long after an acceptance a server is believed that an address does not exist.
const BELIEVED: Duration = Duration::from_secs(3_600);

/// Of so many recipients in a row it proves nothing.
const MAX_UNKNOWN: usize = 5;

/// The most domains that are remembered with what they said of us.
const MAX_DOMAINS: usize = 4_096;

/// The most texts that are remembered.
const MAX_TEXTS: usize = 256;

/// What a provider refused, since when, and what speaks against it.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    suspects: HashMap<String, Suspect>,
    /// Texts that are the recipients' own.
    disarmed: HashMap<String, Disarmed>,
    /// Recipients that opened the circuit since the last acceptance, by a hash, of each domain.
    openers: HashMap<String, HashSet<u64>>,
    /// Those whose openings an acceptance disproved, of each domain: a stranger whose server's
    /// words are passed on finds others for every attempt.
    disproved: HashMap<String, Disarmed>,
    alarms: Alarms,
    turns: Turns,
    pauses: Pauses,
    last_accepted: Option<Instant>,
    /// Addresses that do not exist or get no mail, since then, by a hash, and their domains, until
    /// there are too many.
    missing: HashMap<u64, String>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Suspect {
    since: Instant,
    domains: Vec<String>,
    /// Since when each recipient is refused, by a hash, up to the third domain.
    refused: HashMap<u64, Instant>,
    /// Whether it seems to be our fault.
    is_open: bool,
    /// Recipients that were tried since, by a hash.
    tried: HashSet<u64>,
}

impl Guard {
    /// The verdict on a mail to this recipient, in the light of the earlier ones.
    pub(crate) fn weigh(&mut self, recipient: &str, verdict: Verdict, now: Instant) -> Verdict {
        if matches!(
            verdict,
            Verdict::Dead(_)
                | Verdict::Retry { .. }
                | Verdict::Suspected {
                    suspicion: Suspicion::Words | Suspicion::Limit | Suspicion::Rate,
                    ..
                }
        ) {
            // A server that refuses is not silent.
            self.suspects.remove(SILENCE);
        }
        let (kind, reason) = match verdict {
            Verdict::Sent(_) => {
                self.alarms.accept(&domain_of(recipient), now);
                self.accept(now);
                return verdict;
            }
            Verdict::Dead(Refusal { reason, about: About::Recipient { is_unknown } }) => {
                if self.missing.len() < MISSING {
                    self.missing.insert(self.hasher.hash_one(recipient), domain_of(recipient));
                }
                if self.missing.len() < MISSING {
                    let is_unknown = is_unknown && self.is_believable(now);
                    return Verdict::dead(reason, About::Recipient { is_unknown });
                }
                (Kind::Missing, reason)
            }
            Verdict::Dead(Refusal { reason, about: About::Unplaced }) => (Kind::Unplaced, reason),
            Verdict::Suspected { suspicion: Suspicion::Words, after, reason } => {
                (Kind::Ours(after), reason)
            }
            Verdict::Suspected { suspicion: Suspicion::Limit, after, reason } => {
                (Kind::Limit(after), reason)
            }
            Verdict::Suspected { suspicion: Suspicion::Rate, after, reason } => {
                (Kind::Rate(after), reason)
            }
            Verdict::Suspected { suspicion: Suspicion::Silence, reason, .. } => {
                (Kind::Silence, reason)
            }
            Verdict::Overloaded { after: Some(after), reason } => {
                let text = signature(&reason, recipient);
                let after = Some(self.pauses.grant(after, &text, &domain_of(recipient)));
                return Verdict::Overloaded { after, reason };
            }
            other => return other,
        };
        let side = self.side(kind, recipient, &reason, now);
        kind.verdict(side, reason)
    }

    /// How many reasons of refusals are watched, and how many of them seem to be our own fault.
    pub(crate) fn reasons(&self) -> (usize, usize) {
        (self.suspects.len(), self.suspects.values().filter(|suspect| suspect.is_open).count())
    }

    /// Whether the server is believed that an address does not exist: one that lost its users says
    /// so of everybody.
    fn is_believable(&self, now: Instant) -> bool {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < BELIEVED;
        let domains: HashSet<&String> = self.missing.values().collect();
        self.last_accepted.is_some_and(is_recent)
            && self.suspects.is_empty()
            && domains.len() < DOMAINS
            && self.missing.len() < MAX_UNKNOWN
    }

    /// A mail was accepted: what was refused before it was not our fault.
    fn accept(&mut self, now: Instant) {
        self.last_accepted = Some(now);
        self.missing.clear();
        self.turns.accept(now);
        self.pauses.accept();
        self.disarmed.retain(|_, disarmed| disarmed.until > now);
        for disarmed in self.disarmed.values_mut() {
            disarmed.add(std::iter::empty());
        }
        for (text, suspect) in self.suspects.drain() {
            if self.disarmed.len() >= MAX_TEXTS && !self.disarmed.contains_key(&text) {
                continue;
            }
            let until = now + DISARMED;
            let disarmed = self.disarmed.entry(text).or_insert_with(|| Disarmed::new(until));
            disarmed.until = until;
            disarmed.add(suspect.refused.into_keys().chain(suspect.tried));
        }
        self.disproved.retain(|_, disproved| disproved.until > now);
        for disproved in self.disproved.values_mut() {
            disproved.add(std::iter::empty());
        }
        for (domain, recipients) in self.openers.drain() {
            if self.disproved.len() >= MAX_DOMAINS && !self.disproved.contains_key(&domain) {
                continue;
            }
            let until = now + DISARMED;
            let disproved = self.disproved.entry(domain).or_insert_with(|| Disarmed::new(until));
            disproved.until = until;
            disproved.add(recipients.into_iter());
        }
    }

    /// Notes that a refusal of this recipient opens the circuit for this time, unless it leaves
    /// that to others, or is doubted.
    fn open(
        &mut self,
        domain: String,
        recipient: u64,
        after: Option<Duration>,
        now: Instant,
    ) -> Side {
        let is_granted = after.is_some_and(|after| after > MAX_OF_ONE);
        let is_doubted = !is_granted && self.alarms.doubts(&domain, now);
        if !is_doubted && !self.turns.counts(recipient) {
            return Side::Passed;
        }
        if !is_doubted {
            self.alarms.open(&domain, now);
        }
        if self.openers.len() < MAX_DOMAINS || self.openers.contains_key(&domain) {
            let recipients = self.openers.entry(domain).or_default();
            if recipients.len() < MAX_REFUSED {
                recipients.insert(recipient);
            }
        }
        if is_doubted { Side::Doubted } else { Side::Ours(after) }
    }

    fn side(&mut self, kind: Kind, recipient: &str, reason: &str, now: Instant) -> Side {
        let text = kind.text(reason, recipient);
        let hash = self.hasher.hash_one(recipient);
        if let Kind::Rate(after) = kind {
            if self.turns.is_own_limit(hash, now) {
                return Side::Theirs;
            }
            self.turns.note_limit(hash);
            let after = after.map(|after| after.min(MAX_OF_ONE));
            return if self.turns.counts(hash) { Side::Ours(after) } else { Side::Passed };
        }
        let disarmed = self.disarmed.get_mut(&text).filter(|disarmed| now < disarmed.until);
        // Of addresses that do not exist, enough others are believed already.
        let is_missing = kind == Kind::Missing;
        let was_disproved = is_missing && disarmed.is_some();
        if disarmed.is_some_and(|disarmed| {
            if is_missing { disarmed.refused.contains(&hash) } else { disarmed.believes(hash, now) }
        }) {
            return Side::Theirs;
        }
        let domain = domain_of(recipient);
        if kind.is_of_us()
            && let Some(disproved) = self.disproved.get_mut(&domain)
            && disproved.believes_again(hash, now)
        {
            return Side::Theirs;
        }
        if let Kind::Limit(after) = kind {
            return self.open(domain, hash, after, now);
        }
        let asked = if let Kind::Ours(asked) = kind { asked } else { None };
        let after = asked.map(|asked| self.pauses.grant(asked, &text, &domain));
        let is_granted = after.is_some_and(|after| after > MAX_OF_ONE);
        self.suspects
            .retain(|_, suspect| now.saturating_duration_since(suspect.since) < 24 * UNDECIDED);
        if self.suspects.len() >= MAX_TEXTS && !self.suspects.contains_key(&text) {
            // Texts that all differ are no sign of one fault.
            return Side::Undecided(Duration::ZERO);
        }
        let new = || Suspect {
            since: now,
            domains: Vec::new(),
            refused: HashMap::new(),
            is_open: false,
            tried: HashSet::new(),
        };
        let suspect = self.suspects.entry(text).or_insert_with(new);
        if suspect.domains.len() < kind.domains() && !suspect.domains.contains(&domain) {
            suspect.domains.push(domain.clone());
        }
        if suspect.domains.len() < kind.domains() {
            // Each has its own hour: it may be our fault, and others show it before that has
            // passed.
            let is_remembered =
                suspect.refused.len() < TRIALS || suspect.refused.contains_key(&hash);
            let since = if is_remembered {
                *suspect.refused.entry(hash).or_insert(now)
            } else {
                suspect.since
            };
            let age = now.saturating_duration_since(since);
            return if age < UNDECIDED { Side::Undecided(age) } else { Side::Theirs };
        }
        // The one that shows it opens the circuit, and is tried once more like the others. Where
        // a stranger's many bad addresses have done so within the hour, only a second refusal does.
        // A pause that several domains are asked for is nobody's trial.
        let shows_it = !std::mem::replace(&mut suspect.is_open, true) && !was_disproved;
        if shows_it || is_granted {
            if !kind.is_of_us() {
                return Side::Ours(None);
            }
            return self.open(domain, hash, after, now);
        }
        let is_new = suspect.tried.len() <= TRIALS && suspect.tried.insert(hash);
        if is_new {
            Side::Undecided(Duration::ZERO)
        } else if kind.is_of_us() {
            self.open(domain, hash, after, now)
        } else {
            Side::Ours(None)
        }
    }
}

#[cfg(test)]
mod tests;

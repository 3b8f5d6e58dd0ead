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

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use crate::address::domain_of;
use crate::provider::refusal::signature;
use crate::provider::{About, Refusal, Suspicion, Verdict};

/// Refusals alike for so many domains are about us.
const DOMAINS: usize = 3;

/// How long such refusals are the recipients' own, once a mail was accepted between them.
const DISARMED: Duration = Duration::from_secs(3_600);

/// How long a mail waits until it is tried again, if its refusal is not placed.
const PAUSE: Duration = Duration::from_secs(15);

/// So many others are believed of at once then, until the next mail is accepted.
const BELIEVED_AT_ONCE: usize = 10;

/// How long the refusal of a recipient may stay without a place, where too few others are refused.
const UNDECIDED: Duration = Duration::from_secs(3_600);

/// How many other recipients are still tried, once each, when refusals seem to be about us: one
/// whose mail is accepted proves the contrary, and somebody may have given many bad addresses on
/// purpose.
const TRIALS: usize = 2_000;

/// How long after an acceptance a server is believed that an address does not exist.
const BELIEVED: Duration = Duration::from_secs(3_600);

/// The pause of a mail over which a server says of us what it does not hold against others.
const OWN_PAUSE: Duration = Duration::from_secs(300);

/// The pause of a mail over which the server fell silent: each attempt takes a connection for the
/// whole timeout.
const SILENCE_PAUSE: Duration = Duration::from_secs(120);

/// The text of no answer.
const SILENCE: &str = "silence";

/// The most texts that are remembered.
const MOST_TEXTS: usize = 256;

/// The most recipients that are remembered of a text that is their own.
const MOST_REFUSED: usize = 4 * TRIALS;

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
    last_accepted: Option<Instant>,
    hasher: RandomState,
}

/// What a provider said of a mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Words that no table can place.
    Unplaced,
    /// Words that are about us, with the pause that was asked for.
    Ours(Option<Duration>),
    /// Words about a limit of ours that passes, with the pause that was asked for.
    Limit(Option<Duration>),
    /// Nothing.
    Silence,
}

/// For whom a refusal is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// The recipient's.
    Theirs,
    /// That is not known yet.
    Undecided,
    Ours,
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

#[derive(Debug)]
struct Disarmed {
    until: Instant,
    /// Recipients that were refused before a mail was accepted, by a hash.
    refused: HashSet<u64>,
    /// Those that were refused since.
    others: HashSet<u64>,
}

impl Kind {
    /// What the refusals that are compared have in common.
    fn text(self, reason: &str, recipient: &str) -> String {
        match self {
            Self::Unplaced => signature(reason, recipient),
            Self::Ours(_) | Self::Limit(_) => format!("ours: {}", signature(reason, recipient)),
            Self::Silence => SILENCE.to_owned(),
        }
    }

    /// Refusals for how many domains are our fault.
    fn domains(self) -> usize {
        if self.is_of_us() { 1 } else { DOMAINS }
    }

    fn is_of_us(self) -> bool {
        matches!(self, Self::Ours(_) | Self::Limit(_))
    }

    fn verdict(self, side: Side, reason: String) -> Verdict {
        let pause = match (self, side) {
            (Self::Unplaced, Side::Theirs) => return Verdict::dead(reason, About::Unplaced),
            (Self::Unplaced, Side::Ours) => {
                let what = "are refused alike, as if it were our fault";
                let reason = format!("recipients of {DOMAINS} domains {what}: {reason}");
                return Verdict::Unavailable { after: None, reason };
            }
            (Self::Ours(after) | Self::Limit(after), Side::Ours) => {
                return Verdict::Unavailable { after, reason };
            }
            (Self::Silence, Side::Ours) => {
                let reason =
                    format!("mails to recipients of {DOMAINS} domains get no answer: {reason}");
                return Verdict::Unavailable { after: None, reason };
            }
            (Self::Ours(after) | Self::Limit(after), Side::Theirs) => after.unwrap_or(OWN_PAUSE),
            (Self::Ours(after) | Self::Limit(after), Side::Undecided) => after.unwrap_or(PAUSE),
            (Self::Unplaced, Side::Undecided) => PAUSE,
            (Self::Silence, Side::Theirs | Side::Undecided) => SILENCE_PAUSE,
        };
        Verdict::Retry { after: Some(pause), reason }
    }
}

impl Disarmed {
    fn new(until: Instant) -> Self {
        Self { until, refused: HashSet::new(), others: HashSet::new() }
    }

    /// A mail was accepted: those of whom this was said before it are refused themselves.
    fn add(&mut self, recipients: impl Iterator<Item = u64>) {
        let left = MOST_REFUSED.saturating_sub(self.refused.len());
        self.refused.extend(self.others.drain().chain(recipients).take(left));
    }

    /// Alike, of a domain: others than those themselves only if there were several of them, since
    /// most recipients of some sites are of one domain.
    fn believes_again(&mut self, recipient: u64, now: Instant) -> bool {
        if self.refused.len() < DOMAINS && !self.refused.contains(&recipient) {
            return false;
        }
        self.believes(recipient, now)
    }

    fn believes(&mut self, recipient: u64, now: Instant) -> bool {
        if now >= self.until {
            return false;
        }
        if self.others.len() < BELIEVED_AT_ONCE && !self.refused.contains(&recipient) {
            self.others.insert(recipient);
        }
        self.refused.contains(&recipient) || self.others.contains(&recipient)
    }
}

impl Guard {
    /// The verdict on a mail to this recipient, in the light of the earlier ones.
    pub(crate) fn weigh(&mut self, recipient: &str, verdict: Verdict, now: Instant) -> Verdict {
        if matches!(
            verdict,
            Verdict::Dead(_)
                | Verdict::Retry { .. }
                | Verdict::Suspected { suspicion: Suspicion::Words | Suspicion::Limit, .. }
        ) {
            // A server that refuses is not silent.
            self.suspects.remove(SILENCE);
        }
        let (kind, reason) = match verdict {
            Verdict::Sent(_) => {
                self.accept(now);
                return verdict;
            }
            Verdict::Dead(Refusal { reason, about: About::Recipient { is_unknown: true } }) => {
                let is_recent = |at: Instant| now.saturating_duration_since(at) < BELIEVED;
                let is_unknown =
                    self.last_accepted.is_some_and(is_recent) && self.suspects.is_empty();
                return Verdict::dead(reason, About::Recipient { is_unknown });
            }
            Verdict::Dead(Refusal { reason, about: About::Unplaced }) => (Kind::Unplaced, reason),
            Verdict::Suspected { suspicion: Suspicion::Words, after, reason } => {
                (Kind::Ours(after), reason)
            }
            Verdict::Suspected { suspicion: Suspicion::Limit, after, reason } => {
                (Kind::Limit(after), reason)
            }
            Verdict::Suspected { suspicion: Suspicion::Silence, reason, .. } => {
                (Kind::Silence, reason)
            }
            other => return other,
        };
        let side = self.side(kind, recipient, &reason, now);
        kind.verdict(side, reason)
    }

    /// A mail was accepted: what was refused before it was not our fault.
    fn accept(&mut self, now: Instant) {
        self.last_accepted = Some(now);
        self.disarmed.retain(|_, disarmed| disarmed.until > now);
        for disarmed in self.disarmed.values_mut() {
            disarmed.add(std::iter::empty());
        }
        for (text, suspect) in self.suspects.drain() {
            if self.disarmed.len() >= MOST_TEXTS && !self.disarmed.contains_key(&text) {
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
            if self.disproved.len() >= MOST_TEXTS && !self.disproved.contains_key(&domain) {
                continue;
            }
            let until = now + DISARMED;
            let disproved = self.disproved.entry(domain).or_insert_with(|| Disarmed::new(until));
            disproved.until = until;
            disproved.add(recipients.into_iter());
        }
    }

    /// Notes that a refusal of this recipient opens the circuit.
    fn open(&mut self, domain: String, recipient: u64) -> Side {
        if self.openers.len() < MOST_TEXTS || self.openers.contains_key(&domain) {
            let recipients = self.openers.entry(domain).or_default();
            if recipients.len() < MOST_REFUSED {
                recipients.insert(recipient);
            }
        }
        Side::Ours
    }

    fn side(&mut self, kind: Kind, recipient: &str, reason: &str, now: Instant) -> Side {
        let text = kind.text(reason, recipient);
        let hash = self.hasher.hash_one(recipient);
        if self.disarmed.get_mut(&text).is_some_and(|disarmed| disarmed.believes(hash, now)) {
            return Side::Theirs;
        }
        let domain = domain_of(recipient);
        if kind.is_of_us()
            && let Some(disproved) = self.disproved.get_mut(&domain)
            && disproved.believes_again(hash, now)
        {
            return Side::Theirs;
        }
        if matches!(kind, Kind::Limit(_)) {
            return self.open(domain, hash);
        }
        self.suspects
            .retain(|_, suspect| now.saturating_duration_since(suspect.since) < 24 * UNDECIDED);
        if self.suspects.len() >= MOST_TEXTS && !self.suspects.contains_key(&text) {
            // Texts that all differ are no sign of one fault.
            return Side::Undecided;
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
            let is_recent = now.saturating_duration_since(since) < UNDECIDED;
            return if is_recent { Side::Undecided } else { Side::Theirs };
        }
        // The one that shows it opens the circuit, and is tried once more like the others.
        if !std::mem::replace(&mut suspect.is_open, true) {
            return if kind.is_of_us() { self.open(domain, hash) } else { Side::Ours };
        }
        let is_new = suspect.tried.len() <= TRIALS && suspect.tried.insert(hash);
        if is_new { Side::Undecided } else { Side::Ours }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Receipt;

    const TEXT: &str = "554 5.7.1 no";

    struct Trial {
        guard: Guard,
        start: Instant,
    }

    impl Trial {
        fn new() -> Self {
            Self { guard: Guard::default(), start: Instant::now() }
        }

        fn at(&mut self, seconds: u64, recipient: &str, verdict: Verdict) -> Verdict {
            self.guard.weigh(recipient, verdict, self.start + Duration::from_secs(seconds))
        }

        /// The kind of the verdict on an unplaced refusal.
        fn refused(&mut self, seconds: u64, recipient: &str, text: &str) -> &'static str {
            kind(&self.at(seconds, recipient, Verdict::dead(text, About::Unplaced)))
        }

        fn accepted(&mut self, seconds: u64) {
            self.at(seconds, "good@good.test", Verdict::Sent(Receipt::default()));
        }
    }

    fn kind(verdict: &Verdict) -> &'static str {
        match verdict {
            Verdict::Sent(_) => "sent",
            Verdict::Retry { .. } => "retry",
            Verdict::Dead(_) => "dead",
            Verdict::Unavailable { .. } => "unavailable",
            _ => "in doubt",
        }
    }

    #[test]
    fn refusals_alike_of_three_domains_without_an_acceptance_are_our_fault() {
        let mut trial = Trial::new();
        assert_eq!(trial.refused(0, "a@a.test", "554 5.7.1 <a@a.test>: no, id 1"), "retry");
        assert_eq!(trial.refused(0, "b@a.test", "554 5.7.1 <b@a.test>: no, id 2"), "retry");
        assert_eq!(trial.refused(1, "a@b.test", "554 5.7.1 <a@b.test>: no, id 3"), "retry");
        // Another text is another reason.
        assert_eq!(trial.refused(1, "a@z.test", "554 5.7.1 <a@z.test>: never"), "retry");
        assert_eq!(trial.refused(2, "a@C.test", "554 5.7.1 <a@C.test>: no, id 4"), "unavailable");
        // Others are tried, each once.
        assert_eq!(trial.refused(3, "a@d.test", "554 5.7.1 <a@d.test>: no, id 5"), "retry");
        assert_eq!(trial.refused(18, "a@d.test", "554 5.7.1 <a@d.test>: no, id 5"), "unavailable");
        trial.refused(19, "a@a.test", "554 5.7.1 <a@a.test>: no, id 6");
        for seconds in [20, 600, 7_200, 80_000] {
            assert_eq!(
                trial.refused(seconds, "a@a.test", "554 5.7.1 <a@a.test>: no, id 6"),
                "unavailable"
            );
        }
    }

    #[test]
    fn an_acceptance_gives_the_refused_their_verdicts_for_an_hour() {
        let mut trial = Trial::new();
        for domain in ["a", "b", "c", "d"] {
            trial.refused(0, &format!("x@{domain}.test"), TEXT);
        }
        trial.accepted(5);
        for seconds in [5, 20, 3_600] {
            assert_eq!(trial.refused(seconds, "x@a.test", TEXT), "dead");
            assert_eq!(trial.refused(seconds, "x@new.test", TEXT), "dead");
        }
        assert_eq!(trial.refused(3_606, "x@a.test", TEXT), "retry");
    }

    #[test]
    fn many_bad_addresses_of_a_stranger_are_all_tried_before_the_others_wait() {
        let mut trial = Trial::new();
        let kinds: Vec<_> =
            (0..1_000).map(|n| trial.refused(n / 20, &format!("x@{n}.test"), TEXT)).collect();
        assert_eq!(kinds.iter().filter(|kind| **kind == "unavailable").count(), 1);
        trial.accepted(60);
        for n in 0..1_000 {
            assert_eq!(trial.refused(75, &format!("x@{n}.test"), TEXT), "dead");
        }
        // Really our fault: the trials end.
        let mut trial = Trial::new();
        let kinds: Vec<_> =
            (0..10_000).map(|n| trial.refused(0, &format!("x@{n}.test"), TEXT)).collect();
        assert!(kinds[3_000..].iter().all(|kind| *kind == "unavailable"));
    }

    #[test]
    fn one_address_that_is_refused_for_an_hour_is_dead() {
        let mut trial = Trial::new();
        for seconds in [0, 15, 3_000] {
            assert_eq!(trial.refused(seconds, "x@a.test", TEXT), "retry");
        }
        assert_eq!(trial.refused(3_601, "x@a.test", TEXT), "dead");
    }

    #[test]
    fn each_recipient_has_its_own_hour_before_it_is_dead() {
        let mut trial = Trial::new();
        assert_eq!(trial.refused(0, "x@a.test", TEXT), "retry");
        assert_eq!(trial.refused(3_601, "x@a.test", TEXT), "dead");
        // Others of a site that sends to one domain alone, or seldom to any.
        for recipient in ["y@a.test", "x@b.test"] {
            assert_eq!(trial.refused(3_602, recipient, TEXT), "retry");
            assert_eq!(trial.refused(7_201, recipient, TEXT), "retry");
        }
        assert_eq!(trial.refused(7_201, "x@c.test", TEXT), "unavailable");
        assert_eq!(trial.refused(7_203, "y@a.test", TEXT), "retry");
        assert_eq!(trial.refused(7_218, "y@a.test", TEXT), "unavailable");
    }

    #[test]
    fn a_text_that_was_the_recipients_own_kills_few_if_it_becomes_our_fault_within_the_hour() {
        let mut trial = Trial::new();
        trial.refused(0, "bad@a.test", TEXT);
        trial.accepted(1);
        assert_eq!(trial.refused(15, "bad@a.test", TEXT), "dead");
        // From now on nothing is accepted any more.
        let refused =
            |trial: &mut Trial, n: u64| trial.refused(20 + n / 20, &format!("x@{n}.test"), TEXT);
        let kinds: Vec<_> = (0..400).map(|n| refused(&mut trial, n)).collect();
        let count = |wanted: &str| kinds.iter().filter(|kind| **kind == wanted).count();
        assert_eq!((count("dead"), count("unavailable")), (BELIEVED_AT_ONCE, 1));
        // Or it is, and it was a campaign: then all of them are dead, and some more at once.
        trial.accepted(60);
        for n in 0..400 {
            assert_eq!(refused(&mut trial, n), "dead");
        }
        assert_eq!(refused(&mut trial, 401), "dead");
    }

    #[test]
    fn a_placed_refusal_is_believed_and_an_unknown_address_where_mails_are_accepted() {
        let unknown = || Verdict::dead("550 5.1.1 no", About::Recipient { is_unknown: true });
        let is_believed = |verdict: Verdict| verdict == unknown();
        let mut trial = Trial::new();
        assert!(!is_believed(trial.at(0, "a@a.test", unknown())));
        trial.accepted(1);
        assert!(is_believed(trial.at(3_600, "a@a.test", unknown())));
        assert!(!is_believed(trial.at(3_602, "a@a.test", unknown())));
        trial.accepted(4_000);
        trial.refused(4_001, "a@b.test", TEXT);
        assert!(!is_believed(trial.at(4_002, "a@a.test", unknown())));
        trial.accepted(4_003);
        assert!(is_believed(trial.at(4_004, "a@a.test", unknown())));
        for about in [About::Content, About::Recipient { is_unknown: false }] {
            let verdict = Verdict::dead(TEXT, about);
            assert_eq!(trial.at(4_005, "a@a.test", verdict.clone()), verdict);
        }
    }

    fn ours(reason: &str) -> Verdict {
        Verdict::Suspected { suspicion: Suspicion::Words, after: None, reason: reason.to_owned() }
    }

    fn silence() -> Verdict {
        let reason = "RCPT TO: no answer in time".to_owned();
        Verdict::Suspected { suspicion: Suspicion::Silence, after: None, reason }
    }

    #[test]
    fn what_a_server_says_of_us_over_one_recipient_while_it_takes_mails_to_others_is_that_ones() {
        let mut trial = Trial::new();
        for (accepts, expected) in [
            (false, "unavailable"),
            (false, "retry"),
            (false, "unavailable"),
            (true, "retry"),
            (false, "retry"),
        ] {
            if accepts {
                trial.accepted(1);
            }
            let verdict =
                trial.at(2, "a@a.test", ours("554 5.7.1 <a@a.test>: Relay access denied"));
            assert_eq!(kind(&verdict), expected);
        }
        // What is certainly about everybody stays that.
        for _ in 0..2 {
            let verdict =
                Verdict::Unavailable { after: None, reason: "450 4.7.1 rate limit".to_owned() };
            assert_eq!(trial.at(3, "a@a.test", verdict.clone()), verdict);
            trial.accepted(3);
        }
    }

    #[test]
    fn many_addresses_that_the_server_does_not_serve_are_tried_before_the_others_wait() {
        let refusal = || ours("554 5.7.1 Relay access denied");
        let opens = |trial: &mut Trial, people: std::ops::Range<u64>| {
            let verdicts = people.map(|n| trial.at(n / 20, &format!("x@{n}.test"), refusal()));
            verdicts.filter(|verdict| kind(verdict) == "unavailable").count()
        };
        let mut trial = Trial::new();
        assert_eq!(opens(&mut trial, 0..1_000), 1);
        trial.accepted(60);
        assert_eq!(opens(&mut trial, 0..1_000), 0);
        // Beside others that are accepted it opens nothing, or once.
        assert!(opens(&mut trial, 1_000..2_000) <= 1);
        // Really our fault: the trials end.
        let mut trial = Trial::new();
        assert!(opens(&mut trial, 0..10_000) >= 7_000);
    }

    #[test]
    fn silence_over_many_recipients_is_their_own_while_others_get_answers() {
        let mut trial = Trial::new();
        for (recipient, expected) in [
            ("a@a.test", "retry"),
            ("b@a.test", "retry"),
            ("a@b.test", "retry"),
            ("a@c.test", "unavailable"),
            ("a@d.test", "retry"),
            ("a@d.test", "unavailable"),
        ] {
            assert_eq!(kind(&trial.at(1, recipient, silence())), expected, "{recipient}");
        }
        trial.accepted(2);
        for recipient in ["a@a.test", "a@d.test", "new@e.test"] {
            for _ in 0..5 {
                assert_eq!(kind(&trial.at(3, recipient, silence())), "retry");
            }
        }
        // A refusal is an answer, too.
        let mut trial = Trial::new();
        for n in 0..100 {
            trial.at(
                1,
                "bad@x.test",
                Verdict::dead("550 5.1.1 no", About::Recipient { is_unknown: true }),
            );
            assert_eq!(kind(&trial.at(1, &format!("a@{n}.test"), silence())), "retry");
        }
        // A recipient that is met with silence for hours is never refused for ever because of it.
        let mut trial = Trial::new();
        for seconds in [0, 3_601, 80_000] {
            assert_eq!(kind(&trial.at(seconds, "a@a.test", silence())), "retry");
        }
    }

    fn limit() -> Verdict {
        let reason = "452 4.3.1 limit exceeded, try again later".to_owned();
        Verdict::Suspected { suspicion: Suspicion::Limit, after: None, reason }
    }

    /// Words that no other refusal has.
    fn words(n: u8) -> Verdict {
        let [first, second] = [n / 26, n % 26].map(|n| char::from(b'a' + n));
        ours(&format!("550 5.7.1 relay access denied {first}{second}"))
    }

    #[test]
    fn words_that_are_others_each_time_open_the_circuit_once_for_a_recipient_with_acceptances() {
        for refusal in [words, |_| limit()] {
            let mut trial = Trial::new();
            for n in 0..20 {
                let expected = if n == 0 { "unavailable" } else { "retry" };
                assert_eq!(kind(&trial.at(1, "bad@a.test", refusal(n))), expected, "{n}");
                trial.accepted(1);
            }
            assert_eq!(kind(&trial.at(3_601, "bad@a.test", refusal(20))), "unavailable");
        }
    }

    #[test]
    fn words_that_are_others_each_time_open_the_circuit_seldom_for_a_domain_with_acceptances() {
        for refusal in [words, |_| limit()] {
            let mut trial = Trial::new();
            let opens = |trial: &mut Trial, domain: &str, n| {
                kind(&trial.at(1, &format!("x{n}@{domain}"), refusal(n))) == "unavailable"
            };
            let mut openings = 0;
            for n in 0..20 {
                openings += usize::from(opens(&mut trial, "A.test", n));
                trial.accepted(1);
            }
            assert_eq!(openings, DOMAINS);
            // It may be our fault after all: then nothing is accepted any more.
            assert!((20..=30).any(|n| opens(&mut trial, "a.test", n)));
            assert!(opens(&mut trial, "other.test", 40));
        }
    }

    #[test]
    fn a_limit_is_everybodys_until_a_mail_is_accepted() {
        let mut trial = Trial::new();
        for n in 0..5 {
            assert_eq!(kind(&trial.at(1, &format!("a@{n}.test"), limit())), "unavailable");
            assert_eq!(kind(&trial.at(1, "a@0.test", limit())), "unavailable");
        }
    }
}

//! What becomes of a message: before it is sent, and after its sender has answered. Pure policy:
//! the caller passes the times in.

use std::time::Duration;

use crate::answers::Said;
use crate::message::{Head, Kind, VERSION, Verdict};

/// How many doubts end the attempts to send a mail, and the pauses before: as the database has it.
const MOST_DOUBTS: u32 = 3;
const DOUBT_PAUSES: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(300)];

/// The pauses of a mail that is refused for now, by how often it was delivered: they double.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// By how many seconds clocks of machines may differ.
pub(crate) const CLOCKS_DIFFER: i64 = 60;

/// How long a verdict of another version waits for its own collector, and a mail at first.
pub(crate) const PAUSE_OF_VERSION: Duration = Duration::from_secs(10);

/// How long a mail of another version waits at most: thousands of them, which the broker gives out
/// before those that are new, would leave no place for these.
const LONGEST_PAUSE_OF_VERSION: Duration = Duration::from_secs(600);

/// What is done with a message that comes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Arrival {
    /// Its mail is sent, with so many doubts known.
    Send(u32),
    /// It is given back for this time, and this is counted.
    GiveBack(Duration, &'static str),
    /// It is done with: this became of it earlier, or becomes of it now.
    Done(Option<Verdict>, &'static str),
}

/// What is done with a message of another version, which was delivered so often.
pub(crate) fn of_version(version: Option<u32>, delivered: u64) -> Option<Arrival> {
    // What has none is no mail, which is found by its text.
    let is_other = version.is_some_and(|version| version != VERSION);
    let after = pause(delivered, LONGEST_PAUSE_OF_VERSION).max(PAUSE_OF_VERSION);
    is_other.then_some(Arrival::GiveBack(after, "of another version"))
}

/// What is done with a mail whose verdict is of another version: it may have been sent, and whoever
/// has written that knows what becomes of it.
pub(crate) fn of_foreign_verdict(head: &Head, delivered: u64, now: i64) -> Arrival {
    let left = head.left(now);
    if left.is_zero() {
        return Arrival::Done(None, "expired, with a verdict of another version");
    }
    let after = pause(delivered, LONGEST_PAUSE_OF_VERSION).max(PAUSE_OF_VERSION).min(left);
    Arrival::GiveBack(after, "with a verdict of another version")
}

/// What is done with a mail that had something in the place of its verdict which was none, and is
/// set aside: there may be one before it.
pub(crate) fn of_no_verdict(delivered: u64) -> Arrival {
    let after = pause(delivered, LONGEST_PAUSE);
    Arrival::GiveBack(after, "with what is no verdict, which is set aside")
}

/// Where a message is in the stream, and since when, in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) sequence: u64,
    pub(crate) published_at: i64,
}

/// What is done with a mail that comes in a message, of which the last verdict is this.
pub(crate) fn of_mail(head: &Head, place: Place, last: Option<&Verdict>, now: i64) -> Arrival {
    let settled = last.filter(|last| last.settles(place.sequence, place.published_at));
    if let Some(last) = settled {
        // That this message is done with was said, and was lost on the way.
        let why = if last.kind == Kind::Sent { "sent before" } else { "given up before" };
        return Arrival::Done(None, why);
    }
    let doubts = match last {
        Some(last) if last.kind == Kind::InDoubt => last.doubts.max(head.doubts),
        _ => head.doubts,
    };
    if head.left(now).is_zero() {
        // It may have been delivered, and nobody is to think that it was not.
        if doubts > 0 {
            return Arrival::Done(Some(given_up(head, doubts)), "dead");
        }
        return Arrival::Done(Some(Verdict::of(head, Kind::Expired)), "expired");
    }
    if let Some(last) = last.filter(|last| last.kind == Kind::InDoubt) {
        let since = now.saturating_sub(last.at);
        // Of a sender whose clock is ahead: this message has had its pause when it was given back,
        // and it would begin anew each time until the link expires.
        let pause = if since < -CLOCKS_DIFFER { Duration::ZERO } else { pause_of_doubt(doubts) };
        let left = pause.saturating_sub(Duration::from_secs(u64::try_from(since).unwrap_or(0)));
        if !left.is_zero() {
            return Arrival::GiveBack(left.min(head.left(now)), "in doubt, too early");
        }
    }
    Arrival::Send(doubts)
}

/// What is done with a message whose sender has answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    /// This is recorded, and the message is done with.
    Done(Verdict),
    /// This is recorded, if anything, and the message comes again after this time.
    Again(Option<Verdict>, Duration),
}

/// What becomes of a mail of which `doubts` are known, delivered so often.
pub(crate) fn of_answer(head: &Head, doubts: u32, delivered: u64, said: &Said, now: i64) -> End {
    let again = |after: Duration| End::Again(None, after.min(head.left(now)));
    match said {
        Said::Sent { receipt } => {
            End::Done(Verdict { receipt: receipt.clone(), ..Verdict::of(head, Kind::Sent) })
        }
        Said::Dead { reason, unknown_address } => End::Done(Verdict {
            reason: Some(reason.clone()),
            unknown_address: *unknown_address,
            doubts,
            ..Verdict::of(head, Kind::Dead)
        }),
        Said::InDoubt { reason } => {
            let doubts = doubts.saturating_add(1);
            if doubts >= MOST_DOUBTS {
                return End::Done(given_up(head, doubts));
            }
            let verdict = Verdict {
                reason: Some(reason.clone()),
                doubts,
                ..Verdict::of(head, Kind::InDoubt)
            };
            End::Again(Some(verdict), pause_of_doubt(doubts).min(head.left(now)))
        }
        Said::Retry { after } => again(after.unwrap_or_else(|| pause(delivered, LONGEST_PAUSE))),
        // The broker gives out what came back before what is new: thousands of mails of a domain
        // that is silent would leave no place for others.
        Said::Untried { after } => {
            again(after.unwrap_or_default().max(pause(delivered, LONGEST_PAUSE)))
        }
        Said::Unavailable { after, .. } => again(after.unwrap_or(FIRST_PAUSE)),
    }
}

/// What becomes of a mail that no sender would answer.
pub(crate) fn unusable_mail(head: &Head) -> Verdict {
    let reason = Some("its message cannot be used".to_owned());
    Verdict { reason, ..Verdict::of(head, Kind::Dead) }
}

fn given_up(head: &Head, doubts: u32) -> Verdict {
    let reason = Some("may have been delivered".to_owned());
    Verdict { reason, doubts, ..Verdict::of(head, Kind::Dead) }
}

fn pause_of_doubt(doubts: u32) -> Duration {
    DOUBT_PAUSES[usize::from(doubts > 1)]
}

/// Pauses that double, by how often a message was delivered.
pub(crate) fn pause(delivered: u64, longest: Duration) -> Duration {
    let doublings = u32::try_from(delivered.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
    FIRST_PAUSE.saturating_mul(1 << doublings).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn head() -> Head {
        Head {
            id: 7,
            key: "b9a16650bbdcba5dd0298fef5dd25661".to_owned(),
            action: "activate".to_owned(),
            expires_at: NOW + 1_000,
            attempt: 1,
            doubts: 0,
            priority: None,
        }
    }

    const PLACE: Place = Place { sequence: 5, published_at: NOW - 10 };

    /// On an earlier message.
    fn last(verdict: Kind, at: i64, doubts: u32) -> Verdict {
        Verdict { at, doubts, ..Verdict::of(&head(), verdict) }
    }

    #[test]
    fn a_mail_whose_verdict_is_of_another_version_is_not_sent_and_expires_without_another_one() {
        let given_back = |seconds| {
            let after = Duration::from_secs(seconds);
            Arrival::GiveBack(after, "with a verdict of another version")
        };
        let expired = Arrival::Done(None, "expired, with a verdict of another version");
        for (delivered, now, expected) in [
            (1, NOW, given_back(10)),
            (9, NOW, given_back(256)),
            (40, NOW, given_back(600)),
            (40, NOW + 990, given_back(10)),
            (40, NOW + 1_000, expired),
        ] {
            assert_eq!(of_foreign_verdict(&head(), delivered, now), expected, "{delivered}");
        }
    }

    #[test]
    fn what_was_sent_is_not_sent_again_and_what_was_put_back_is() {
        assert_eq!(of_mail(&head(), PLACE, None, NOW), Arrival::Send(0));
        let sent = last(Kind::Sent, NOW - 5, 0);
        assert_eq!(of_mail(&head(), PLACE, Some(&sent), NOW), Arrival::Done(None, "sent before"));
        for kind in [Kind::Dead, Kind::Expired] {
            let given_up = last(kind, NOW - 5, 3);
            assert_eq!(of_mail(&head(), PLACE, Some(&given_up), NOW), Arrival::Send(0));
            let on_this = Verdict { sequence: PLACE.sequence, ..given_up };
            let expected = Arrival::Done(None, "given up before");
            assert_eq!(of_mail(&head(), PLACE, Some(&on_this), NOW), expected);
        }
    }

    #[test]
    fn what_is_expired_is_dropped_and_never_sent() {
        let late = NOW + 1_000;
        let Arrival::Done(Some(verdict), "expired") = of_mail(&head(), PLACE, None, late) else {
            panic!("it is sent");
        };
        assert_eq!(verdict.kind, Kind::Expired);
        let doubt = last(Kind::InDoubt, NOW, 1);
        let Arrival::Done(Some(verdict), "dead") = of_mail(&head(), PLACE, Some(&doubt), late)
        else {
            panic!("it counts as expired");
        };
        assert_eq!(verdict.reason.as_deref(), Some("may have been delivered"));
    }

    #[test]
    fn a_doubt_waits_for_its_pause_whoever_gets_it_and_the_third_one_ends_it() {
        for (doubts, pause) in [(1, 60), (2, 300)] {
            let doubt = last(Kind::InDoubt, NOW - 20, doubts);
            let left = Duration::from_secs(pause - 20);
            let expected = Arrival::GiveBack(left, "in doubt, too early");
            assert_eq!(of_mail(&head(), PLACE, Some(&doubt), NOW), expected);
            let later = NOW + i64::try_from(pause).unwrap();
            assert_eq!(of_mail(&head(), PLACE, Some(&doubt), later), Arrival::Send(doubts));
        }
        let ahead = last(Kind::InDoubt, NOW + 3_600, 1);
        assert_eq!(of_mail(&head(), PLACE, Some(&ahead), NOW), Arrival::Send(1));
        let said = Said::InDoubt { reason: "cut".to_owned() };
        for doubts in [0, 1] {
            let End::Again(Some(verdict), _) = of_answer(&head(), doubts, 1, &said, NOW) else {
                panic!("it is given up");
            };
            assert_eq!((verdict.kind, verdict.doubts), (Kind::InDoubt, doubts + 1));
        }
        let End::Done(verdict) = of_answer(&head(), 2, 9, &said, NOW) else {
            panic!("it is sent for ever");
        };
        assert_eq!((verdict.kind, verdict.doubts), (Kind::Dead, 3));
    }

    #[test]
    fn pauses_double_and_never_outlast_the_token() {
        for (delivered, seconds) in [(1, 1), (2, 2), (3, 4), (7, 60), (10_000, 60)] {
            let said = Said::Retry { after: None };
            let expected = End::Again(None, Duration::from_secs(seconds));
            assert_eq!(of_answer(&head(), 0, delivered, &said, NOW), expected);
        }
        for (after, delivered, seconds) in
            [(0, 1, 1), (0, 7, 60), (5, 1, 5), (5, 7, 60), (90, 7, 90)]
        {
            let said = Said::Untried { after: Some(Duration::from_secs(after)) };
            let expected = End::Again(None, Duration::from_secs(seconds));
            assert_eq!(of_answer(&head(), 0, delivered, &said, NOW), expected);
        }
        let said = Said::Untried { after: Some(Duration::from_secs(86_400)) };
        let expected = End::Again(None, Duration::from_secs(1_000));
        assert_eq!(of_answer(&head(), 0, 1, &said, NOW), expected);
    }

    #[test]
    fn another_version_is_left_to_its_own_consumers() {
        assert_eq!(of_version(Some(VERSION), 1), None);
        assert_eq!(of_version(None, 1), None);
        for (delivered, seconds) in [(1, 10), (4, 10), (5, 16), (1_000, 600)] {
            let after = Duration::from_secs(seconds);
            let expected = Arrival::GiveBack(after, "of another version");
            assert_eq!(of_version(Some(VERSION + 1), delivered), Some(expected));
        }
    }
}

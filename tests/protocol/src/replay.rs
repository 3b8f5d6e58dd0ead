//! Holds the log of a real run against the model: each entry must be what the database's functions
//! can have written there, after those before it.

use crate::collector::Verdict;
use crate::database::{Database, Outcome};

/// What the log says of one attempt of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which attempt, from 1; where there was none, how many there were before.
    pub attempt: i64,
    /// What became of it.
    pub outcome: Outcome,
}

/// Replays the entries of one token, in the order of their attempts.
///
/// # Errors
/// The first entry that the protocol cannot have written.
pub fn replay(entries: &[Entry]) -> Result<(), String> {
    let mut database = Database::new(1);
    database.commit(0);
    for (index, entry) in entries.iter().enumerate() {
        take(&mut database, *entry)
            .map_err(|fault| format!("entry {index}, {entry:?}: {fault}"))?;
    }
    Ok(())
}

fn take(database: &mut Database, entry: Entry) -> Result<(), String> {
    // An operator may have put it back.
    if database.rows[0].ended.is_some_and(|ended| !ended.is_final()) {
        database.retry(0);
    }
    if !database.is_claimable(0) {
        return Err(format!("it had ended: {:?}", database.rows[0].ended));
    }
    let attempts = i64::from(database.rows[0].attempts);
    if entry.attempt == attempts {
        return skip(database, entry);
    }
    if entry.attempt != attempts + 1 {
        return Err(format!("attempt {} follows on {attempts}", entry.attempt));
    }
    if database.claim(0, 1, false, None).is_err() {
        return Err("it could not be claimed".to_owned());
    }
    let verdict = match entry.outcome {
        Outcome::Lapsed => {
            database.lapse(1, None);
            return Ok(());
        }
        // Deleted while it was claimed.
        Outcome::Cancelled => {
            database.rows[0].is_cancelled = true;
            Verdict::Dead
        }
        Outcome::Sent => Verdict::Sent,
        Outcome::Retry => Verdict::Retry,
        Outcome::Unanswered => Verdict::Unanswered,
        Outcome::InDoubt => Verdict::InDoubt,
        Outcome::Dead => Verdict::Dead,
        Outcome::Expired => return Err("a token that is claimed does not expire".to_owned()),
    };
    let logged = database.settle((1, 0), verdict, None);
    if verdict == Verdict::InDoubt && logged != Some(Outcome::InDoubt) {
        return Err("the third doubt is a dead letter".to_owned());
    }
    Ok(())
}

/// What was not claimed: it was used, cancelled or suppressed, or it expired.
fn skip(database: &mut Database, entry: Entry) -> Result<(), String> {
    let is_in_doubt = database.rows[0].doubts > 0;
    match entry.outcome {
        Outcome::Cancelled => database.rows[0].is_cancelled = true,
        // Its address is suppressed, or it may have been delivered.
        Outcome::Dead => {
            database.rows[0].queued = 0;
            database.rows[0].ended = Some(crate::Ended::Dead);
            return Ok(());
        }
        Outcome::Expired if is_in_doubt => {
            return Err("what may have been delivered is not called expired".to_owned());
        }
        Outcome::Expired => {}
        _ => return Err("it was not claimed for that".to_owned()),
    }
    drop(database.claim(0, 1, entry.outcome == Outcome::Expired, None));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(entries: &[(i64, Outcome)]) -> Vec<Entry> {
        entries.iter().map(|&(attempt, outcome)| Entry { attempt, outcome }).collect()
    }

    #[test]
    fn what_the_protocol_writes_is_taken() {
        use Outcome::{Cancelled, Dead, Expired, InDoubt, Lapsed, Retry, Sent, Unanswered};
        for good in [
            &[(1, Sent)][..],
            &[(1, Lapsed), (2, Retry), (3, Unanswered), (4, Sent)],
            &[(1, InDoubt), (2, Retry), (3, InDoubt), (4, Dead)],
            &[(1, InDoubt), (1, Dead)],
            &[(0, Expired)],
            &[(1, Retry), (1, Expired)],
            &[(1, InDoubt), (1, Cancelled)],
            &[(1, Dead), (2, Sent)],
        ] {
            assert_eq!(replay(&entries(good)), Ok(()), "{good:?}");
        }
    }

    #[test]
    fn what_it_never_writes_is_refused() {
        use Outcome::{Cancelled, Expired, InDoubt, Lapsed, Retry, Sent};
        for bad in [
            &[(1, Sent), (2, Sent)][..],
            &[(2, Sent)],
            &[(1, Lapsed), (1, Sent)],
            &[(1, InDoubt), (2, InDoubt), (3, InDoubt)],
            &[(1, InDoubt), (1, Expired)],
            &[(0, Expired), (1, Sent)],
            &[(1, Retry), (3, Sent)],
            &[(1, Cancelled), (2, Lapsed)],
        ] {
            assert!(replay(&entries(bad)).is_err(), "{bad:?}");
        }
    }
}

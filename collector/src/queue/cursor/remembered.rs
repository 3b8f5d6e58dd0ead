//! Tokens that were passed because their account had the wrong status, to be looked at again.

use std::collections::BTreeSet;

/// The most tokens that are kept; some megabytes.
pub(super) const MOST: usize = 100_000;

/// Ids of unexpired, unconsumed tokens at or before the place that reading has reached.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    ids: BTreeSet<i64>,
    /// Whether some of them may be eligible by now, so that none with a higher id may be claimed before a look.
    is_look_due: bool,
    /// Whether it was said that there are too many, and still are about as many.
    is_full: bool,
}

impl Remembered {
    /// Keeps tokens whose account has the wrong status.
    pub(super) fn insert(&mut self, ids: impl IntoIterator<Item = i64>) {
        self.ids.extend(ids);
        if self.ids.len() > MOST && !self.is_full {
            self.is_full = true;
            tracing::warn!(
                event = "tokens_forgotten",
                most = MOST,
                "too many tokens wait for their account to get the status they need; only the newest are looked at again"
            );
        } else if self.ids.len() < MOST / 2 {
            self.is_full = false;
        }
        while self.ids.len() > MOST {
            // The oldest expires first.
            self.ids.pop_first();
        }
    }

    /// Keeps tokens that can be sent as far as is known.
    pub(super) fn put_back(&mut self, ids: impl IntoIterator<Item = i64>) {
        let mut ids = ids.into_iter().peekable();
        self.is_look_due |= ids.peek().is_some();
        self.insert(ids);
    }

    /// Whether a look is due, apart from the regular ones.
    pub(super) fn is_look_due(&self) -> bool {
        self.is_look_due
    }

    /// Some of the tokens were looked at, or all.
    pub(super) fn looked(&mut self, at_all: bool) {
        self.is_look_due = !at_all;
    }

    /// The next tokens after `id`, at most `count`.
    pub(super) fn after(&self, id: i64, count: usize) -> Vec<i64> {
        self.ids.range(id.saturating_add(1)..).take(count).copied().collect()
    }

    /// These are over, or are kept elsewhere.
    pub(super) fn remove(&mut self, ids: &[i64]) {
        for id in ids {
            self.ids.remove(id);
        }
    }

    /// Forgets those up to `id`.
    pub(super) fn forget_through(&mut self, id: i64) {
        self.ids = self.ids.split_off(&id.saturating_add(1));
    }

    /// Forgets those after `id`.
    pub(super) fn forget_after(&mut self, id: i64) {
        self.ids.split_off(&id.saturating_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_the_oldest_go_first() {
        let mut remembered = Remembered::default();
        let most = i64::try_from(MOST).unwrap();
        remembered.insert(1..=most + 5);
        assert_eq!((remembered.ids.len(), remembered.ids.first()), (MOST, Some(&6)));
    }

    #[test]
    fn what_was_put_back_is_looked_at_without_waiting_for_the_next_poll() {
        let mut remembered = Remembered::default();
        remembered.insert([1]);
        remembered.put_back([]);
        assert!(!remembered.is_look_due());
        remembered.put_back([2]);
        assert!(remembered.is_look_due());
        remembered.looked(false);
        assert!(remembered.is_look_due());
        remembered.looked(true);
        assert!(!remembered.is_look_due());
    }

    #[test]
    fn both_ends_can_be_forgotten() {
        let mut remembered = Remembered::default();
        remembered.insert(1..=9);
        remembered.forget_through(3);
        remembered.forget_after(6);
        assert_eq!(remembered.after(i64::MIN, 9), [4, 5, 6]);
        remembered.forget_through(i64::MAX);
        assert_eq!(remembered.after(i64::MIN, 9), [0_i64; 0]);
    }
}

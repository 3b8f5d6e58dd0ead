//! Names of batches.

use std::time::SystemTime;

use super::BatchId;

/// Gives each batch of this process a number, and a name that no batch of another process has.
#[derive(Debug)]
pub(super) struct BatchNames {
    /// Chosen at random when the process starts; the upper half of every name.
    run: u64,
    last: u64,
}

impl BatchNames {
    /// Names that were not given before.
    pub(super) fn new() -> Self {
        // A clock in nanoseconds tells processes apart well enough where there is no randomness.
        let clock = || {
            SystemTime::UNIX_EPOCH
                .elapsed()
                .map_or(0, |elapsed| u64::from(elapsed.subsec_nanos()) << 32 | elapsed.as_secs())
        };
        Self { run: getrandom::u64().unwrap_or_else(|_| clock()), last: 0 }
    }

    /// The next batch's number, counted from 1, and its name.
    pub(super) fn next(&mut self) -> (BatchId, u128) {
        self.last += 1;
        (BatchId(self.last), u128::from(self.run) << 64 | u128::from(self.last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_within_a_process_and_between_processes() {
        let (mut one, mut other) = (BatchNames::new(), BatchNames::new());
        let names: std::collections::BTreeSet<_> =
            (0..100).flat_map(|_| [one.next().1, other.next().1]).collect();
        assert_eq!(names.len(), 200);
    }

    #[test]
    fn numbers_count_up_from_one() {
        let mut names = BatchNames::new();
        assert_eq!([names.next().0, names.next().0], [BatchId(1), BatchId(2)]);
    }
}

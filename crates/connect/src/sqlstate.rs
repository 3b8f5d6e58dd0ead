//! What errors of PostgreSQL mean for a statement that is a transaction of its own.
//!
//! An entry is a code of appendix A, or the two characters that begin the codes of a class. The
//! lists of TypeScript are written from these:
//! `UPDATE=1 cargo test --workspace --test offline -- sqlstates`.

/// The transaction was taken back and may go well when it is repeated: a conflict of
/// serialization, a deadlock.
///
/// After these `mailroom serve` repeats a call (`serve/src/database.rs`), and the npm package a
/// statement (`failure.ts` of its database, `postgres.ts` of its stores).
pub const REPEATABLE: [&str; 2] = ["40001", "40P01"];

/// Nothing was done, for a reason that passes: there was no connection, the server is read-only,
/// the transaction was taken back, or ended by a limit of resources or of time.
///
/// `mailroom serve` answers so (`serve/src/failure.rs`), the package (`failure.ts` of its database)
/// and the demonstration (`web-demo/origin/trouble.ts`) say so.
pub const UNDONE: [&str; 12] = [
    "08001", "08004", "25006", "40000", "40001", "40002", "40P01", "53", "55006", "55P03", "57014",
    "57P03",
];

/// Nobody knows whether it was done, where [`UNDONE`] does not say so: the connection was lost
/// (08, which poolers say, too), the completion is unknown, the server ended, or a file of it
/// failed.
///
/// Whoever reads [`UNDONE`] reads this, too.
pub const UNKNOWN: [&str; 6] = ["08", "40003", "57P01", "57P02", "57P05", "58"];

/// The schema, or the rights of this role, are not those that a query expects: no repetition helps.
///
/// The collector's queue ends with these (`collector/src/queue/session.rs`), and tries every other
/// error again. The package's store has words for some of them.
pub const WRONG_SCHEMA: [&str; 6] = ["42501", "42703", "42704", "42804", "42883", "42P01"];

/// Whether a code is in a list, by itself or by its class.
pub fn is_in(list: &[&str], sqlstate: &str) -> bool {
    list.iter().any(|entry| sqlstate.starts_with(entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_completion_is_not_undone_though_its_class_is_of_rollbacks() {
        assert!(is_in(&UNKNOWN, "40003") && !is_in(&UNDONE, "40003"));
        for sqlstate in ["40001", "40P01", "53300", "57014"] {
            assert!(is_in(&UNDONE, sqlstate) && !is_in(&UNKNOWN, sqlstate), "{sqlstate}");
        }
    }

    #[test]
    fn what_may_be_repeated_was_undone_and_no_code_is_in_two_lists_by_itself() {
        assert!(REPEATABLE.iter().all(|sqlstate| is_in(&UNDONE, sqlstate)));
        let lists: [&[&str]; 3] = [&UNDONE, &UNKNOWN, &WRONG_SCHEMA];
        for (at, list) in lists.iter().enumerate() {
            for other in &lists[at + 1..] {
                assert!(!list.iter().any(|entry| other.contains(entry)), "{list:?} {other:?}");
            }
            assert!(list.is_sorted(), "{list:?}");
        }
        // `UNDONE` is looked at first: a class of `UNKNOWN` may hold codes of it, not the reverse.
        assert!(!UNKNOWN.iter().any(|entry| is_in(&UNDONE, entry)));
    }
}

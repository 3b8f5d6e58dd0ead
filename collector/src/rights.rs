//! The sets of functions and views that the documents give a role each (docs/operate/rights.md):
//! `mailroom migrate roles` grants them, and `mailroom status` finds what is in none of them.

use std::collections::BTreeMap;

/// The sets by the names of their roles, as JSON, which SQL reads too.
pub(crate) const RIGHTS: &str = include_str!("rights.json");

/// What the role of one part needs.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Set {
    /// The functions that it calls.
    pub(crate) functions: Vec<String>,
    /// Further ones that it may have, where its operator wants that.
    #[serde(default, rename = "optional")]
    _optional: Vec<String>,
    /// The views that it reads.
    #[serde(default)]
    pub(crate) views: Vec<String>,
    /// Whether it changes rows of accounts, where Mailroom has them.
    #[serde(default)]
    pub(crate) uses_accounts: bool,
    /// Whether only an operator makes such a role.
    #[serde(default)]
    pub(crate) is_by_hand: bool,
}

pub(crate) fn sets() -> BTreeMap<String, Set> {
    serde_json::from_str(RIGHTS).expect("a test reads the file that is part of the program")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_and_no_set_has_both_halves_of_a_takeover() {
        for (role, set) in sets() {
            let has = |name: &str| set.functions.iter().any(|function| function == name);
            assert!(!(has("claim") && has("redeem")), "{role}");
            assert!(!set.functions.is_empty(), "{role}");
        }
    }
}

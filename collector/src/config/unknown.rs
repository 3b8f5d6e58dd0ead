//! Variables that look like settings and are none.

use std::ffi::OsString;

const PREFIX: &str = "MAILROOM_";

/// The settings that have no flag, or one of another command.
const WITHOUT_FLAG: [&str; 5] =
    ["DATABASE_URL", "SECRET_KEY", "SIGNING_KEY", "PUBLIC_KEY", "MIGRATIONS_TABLE"];

/// The least likeness of a name that is proposed, as for flags.
const LIKENESS: f64 = 0.7;

/// The names of the environment that begin as settings do and are none, each with the nearest one. `flags` are the flags of
/// the settings, without their hyphens in front.
pub fn unknown_variables(
    flags: &[String],
    names: impl Iterator<Item = OsString>,
) -> Vec<(String, Option<String>)> {
    let flags = flags.iter().map(|flag| flag.replace('-', "_").to_ascii_uppercase());
    let known: Vec<String> = flags.chain(WITHOUT_FLAG.map(str::to_owned)).collect();
    let unknown = names.filter_map(|name| {
        let name = name.to_string_lossy();
        let rest = name.strip_prefix(PREFIX)?;
        let likeness = |other: &String| strsim::jaro(&rest.to_ascii_uppercase(), other);
        let nearest = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
        let is_near = likeness(nearest) > LIKENESS;
        (nearest != rest).then(|| (name.to_string(), is_near.then(|| format!("{PREFIX}{nearest}"))))
    });
    unknown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(name: &str) -> Vec<(String, Option<String>)> {
        unknown_variables(&["batch-limit".to_owned(), "lease".to_owned()], [name.into()].into_iter())
    }

    #[test]
    fn a_misspelt_name_is_found_with_the_right_one() {
        for (name, nearest) in [
            ("MAILROOM_BATCH_LIMITS", Some("MAILROOM_BATCH_LIMIT")),
            ("MAILROOM_BATCHLIMIT", Some("MAILROOM_BATCH_LIMIT")),
            ("MAILROOM_lease", Some("MAILROOM_LEASE")),
            ("MAILROOM_SECRETKEY", Some("MAILROOM_SECRET_KEY")),
            ("MAILROOM_Q", None),
        ] {
            assert_eq!(unknown(name), [(name.to_owned(), nearest.map(str::to_owned))]);
        }
    }

    #[test]
    fn settings_and_the_variables_of_others_are_not_named() {
        for name in ["MAILROOM_BATCH_LIMIT", "MAILROOM_DATABASE_URL", "XMAILROOM_A", "PATH", "MAILROOMS"] {
            assert_eq!(unknown(name), []);
        }
    }
}

//! The status codes of calls. `npm/src/errors/reasons.mjs` says what they mean in TypeScript.

use mailroom_verifier_core::{Malformed, VerifyError};

/// The call succeeded.
pub(crate) const OK: u32 = 0;
/// The key is none of this module's kind. TypeScript never says why: an error may be logged.
pub(crate) const INVALID_KEY: u32 = 1;
/// Nothing is known yet of the signature, which is left to the platform.
#[cfg(all(feature = "public", not(feature = "shared")))]
pub(crate) const PENDING: u32 = 254;
/// A result that this module cannot name: it and the core are of different versions.
pub(crate) const UNKNOWN: u32 = 255;

/// The number of a judged token.
pub(crate) fn of(verdict: Result<(), VerifyError>) -> u32 {
    match verdict {
        Ok(()) => OK,
        Err(VerifyError::Malformed(Malformed::Length { .. })) => 1,
        Err(VerifyError::Malformed(Malformed::Encoding)) => 2,
        Err(VerifyError::Signature) => 3,
        Err(VerifyError::CodeUncheckable) => 4,
        Err(VerifyError::CodeRequired { .. }) => 5,
        Err(VerifyError::CodeMalformed { .. }) => 6,
        Err(VerifyError::Malformed(Malformed::Version { .. })) => 7,
        Err(VerifyError::Malformed(Malformed::Action { .. })) => 8,
        Err(VerifyError::Malformed(Malformed::Expiry)) => 9,
        Err(VerifyError::Action { .. }) => 10,
        Err(VerifyError::Expired { .. }) => 11,
        Err(VerifyError::CodeMismatch) => 12,
        Err(VerifyError::LinkUncheckable) => 13,
        Err(VerifyError::OtherBrowser) => 14,
        Err(_) => UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use mailroom_verifier_core::Expiry;

    use super::*;

    /// One of each variant.
    const REFUSED: [VerifyError; 14] = [
        VerifyError::Malformed(Malformed::Length { found: 0 }),
        VerifyError::Malformed(Malformed::Encoding),
        VerifyError::Malformed(Malformed::Version { found: 0 }),
        VerifyError::Malformed(Malformed::Action { found: 0 }),
        VerifyError::Malformed(Malformed::Expiry),
        VerifyError::Signature,
        VerifyError::Action { found: 1 },
        VerifyError::Expired { now: 0, expires_at: Expiry::MAX },
        VerifyError::OtherBrowser,
        VerifyError::CodeUncheckable,
        VerifyError::CodeRequired { digits: 5 },
        VerifyError::CodeMalformed { digits: 5 },
        VerifyError::CodeMismatch,
        VerifyError::LinkUncheckable,
    ];

    /// The numbers of the table of reasons, each with its reason, but for those that TypeScript
    /// alone gives, whose sentences have names.
    fn numbers_of_the_table() -> BTreeMap<u32, &'static str> {
        let mut numbers = BTreeMap::new();
        let (mut reason, mut number) = ("", 0);
        let members = include_str!("../npm/src/errors/reasons.mjs")
            .split(['\n', '{', ',', '}'])
            .filter_map(|member| member.trim().split_once(": "));
        for (name, value) in members {
            match name {
                "reason" => reason = value.trim_matches('"'),
                "number" => number = value.parse().expect("a number"),
                "sentenceName" => number = 0,
                "sentence" if number != 0 => drop(numbers.insert(number, reason)),
                _ => (),
            }
        }
        numbers
    }

    /// The variants of an enum of the core's `error.rs`: other crates cannot match them all.
    fn variants(name: &str) -> BTreeSet<&'static str> {
        let source = include_str!("../../verifier-core/src/error.rs");
        let (_, rest) = source.split_once(&format!("pub enum {name} {{\n")).expect("the enum");
        let (body, _) = rest.split_once("\n}\n").expect("its end");
        let lines = body.lines().filter_map(|line| line.strip_prefix("    "));
        let begins = |line: &&str| line.starts_with(|first: char| first.is_ascii_uppercase());
        lines.filter(begins).filter_map(|line| line.split([' ', '(', ',']).next()).collect()
    }

    /// How `Debug` begins, which is the name of the variant.
    fn name(debug: &str) -> &str {
        debug.split([' ', '(']).next().unwrap_or_default()
    }

    #[test]
    fn every_refusal_of_the_core_has_a_number() {
        let (mut refused, mut malformed) = (BTreeSet::new(), BTreeSet::new());
        for error in REFUSED {
            assert_ne!(of(Err(error)), UNKNOWN, "{error:?}");
            refused.insert(format!("{error:?}"));
            if let VerifyError::Malformed(reason) = error {
                malformed.insert(format!("{reason:?}"));
            }
        }
        for (found, wanted) in [(&refused, "VerifyError"), (&malformed, "Malformed")] {
            let found: BTreeSet<_> = found.iter().map(|debug| name(debug)).collect();
            assert_eq!(found, variants(wanted), "{wanted}");
        }
    }

    #[test]
    fn the_table_of_reasons_gives_every_number_the_reason_that_the_core_gives() {
        let given = REFUSED.map(|error| (of(Err(error)), error.reason()));
        assert_eq!(numbers_of_the_table(), BTreeMap::from(given));
    }
}

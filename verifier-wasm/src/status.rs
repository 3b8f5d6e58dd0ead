//! The status codes of calls. `npm/src/errors/reasons.mjs` says what they mean in TypeScript.

use mailroom_verifier_core::{InvalidKey, Malformed, VerifyError};

/// The call succeeded.
pub(crate) const OK: u32 = 0;
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

/// The number of a key that was refused.
pub(crate) fn of_key(error: InvalidKey) -> u32 {
    match error {
        InvalidKey::Length { .. } => 1,
        InvalidKey::NotHexadecimal => 2,
        InvalidKey::Kind => 3,
        InvalidKey::NotBase64 => 4,
        InvalidKey::NotAPoint => 5,
        InvalidKey::SmallOrder => 6,
        _ => UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mailroom_verifier_core::Expiry;

    use super::*;

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

    #[test]
    fn the_table_of_reasons_gives_every_number_the_reason_that_the_core_gives() {
        let refused: [VerifyError; 14] = [
            Malformed::Length { found: 0 }.into(),
            Malformed::Encoding.into(),
            Malformed::Version { found: 0 }.into(),
            Malformed::Action { found: 0 }.into(),
            Malformed::Expiry.into(),
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
        let given = refused.map(|error| (of(Err(error)), error.reason()));
        assert_eq!(numbers_of_the_table(), BTreeMap::from(given));
    }
}

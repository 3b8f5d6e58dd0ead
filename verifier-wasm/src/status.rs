//! The status codes of calls. `npm/src/errors/status.ts` gives them their names.

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
    use super::*;
    use mailroom_verifier_core::Expiry;

    /// What stands between `start` and the next `end`.
    fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
        text.split_once(start)
            .and_then(|(_, rest)| rest.split_once(end))
            .expect("the text has both")
            .0
    }

    #[test]
    fn typescript_gives_every_number_the_reason_that_the_core_gives() {
        let errors = include_str!("../npm/src/errors/errors.ts");
        let refusals = between(include_str!("../npm/src/errors/status.ts"), "const refusals", "];");
        let classes = refusals.split(|character: char| !character.is_alphanumeric());
        let reasons: Vec<&str> = classes
            .filter(|word| word.ends_with("Error"))
            .map(|class| {
                between(
                    between(errors, &format!("export class {class} "), "}"),
                    "reason = \"",
                    "\"",
                )
            })
            .collect();

        let refused = [
            Malformed::Length { found: 0 }.into(),
            Malformed::Encoding.into(),
            VerifyError::Signature,
            VerifyError::CodeUncheckable,
            VerifyError::CodeRequired { digits: 5 },
            VerifyError::CodeMalformed { digits: 5 },
            Malformed::Version { found: 0 }.into(),
            Malformed::Action { found: 0 }.into(),
            Malformed::Expiry.into(),
            VerifyError::Action { found: 1 },
            VerifyError::Expired { now: 0, expires_at: Expiry::MAX },
            VerifyError::CodeMismatch,
            VerifyError::LinkUncheckable,
            VerifyError::OtherBrowser,
        ];
        // What follows in TypeScript stands for nothing that the module says.
        assert_eq!(reasons[..refused.len()], refused.map(VerifyError::reason));
        for (number, error) in (1..).zip(refused) {
            assert_eq!(of(Err(error)), number);
        }
    }
}

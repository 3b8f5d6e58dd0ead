//! The numbers that stand for results, because integers cross for free. `npm/src/status.ts` gives them their names.

use mailroom_verifier_core::{InvalidKey, Malformed, VerifyError};

/// The call did what it was asked to.
pub(crate) const OK: u32 = 0;
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
        Err(VerifyError::CodeRequired) => 5,
        Err(VerifyError::CodeMalformed) => 6,
        Err(_) => UNKNOWN,
    }
}

/// The number of a key that was refused.
pub(crate) fn of_key(error: InvalidKey) -> u32 {
    match error {
        InvalidKey::Length { .. } => 1,
        InvalidKey::NotHexadecimal | InvalidKey::Kind => 2,
        _ => UNKNOWN,
    }
}

//! Whether a collector printed every token once, with a genuine signature.

use std::collections::HashSet;

use anyhow::{Result, ensure};
use mailroom_tests::collector::{KEY, items};
use mailroom_verifier_core::{Expected, KeyRing, Moment, SharedKey, UntrustedToken};

/// Tokens of v1 carry no expiry that it could be compared with.
const NOW: Moment = Moment::at(0);

/// Compares what was printed with the secrets of all tokens:
/// each once, and in their order if that `is_ordered`.
pub(crate) fn check(output: &[u8], expected: &[[u8; 32]], is_ordered: bool) -> Result<()> {
    let keys = KeyRing::of(SharedKey::from_hex(KEY)?);
    let mut secrets = Vec::with_capacity(expected.len());
    for line in str::from_utf8(output)?.split_inclusive('\n') {
        for item in items(line)? {
            let token =
                UntrustedToken::parse(&item.token)?.verify(&keys, Expected::activation(), NOW)?;
            secrets.push(*token.secret().as_bytes());
        }
    }
    ensure!(
        secrets.len() == expected.len(),
        "{} tokens came, not {}",
        secrets.len(),
        expected.len()
    );
    if is_ordered {
        ensure!(secrets == expected, "a token is missing, came twice, or overtook another");
    } else {
        let sets = [&secrets[..], expected].map(|all| all.iter().collect::<HashSet<_>>());
        ensure!(sets[0] == sets[1], "a token is missing, or came twice");
    }
    Ok(())
}

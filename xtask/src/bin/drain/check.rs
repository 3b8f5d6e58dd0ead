//! Whether every token came out, once, and genuine.

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::KEY;
use mailroom_verifier_core::{Expected as Link, KeyRing, Moment, SharedKey, UntrustedToken};

/// Tokens of v1 carry no expiry that it could be compared with.
const NOW: Moment = Moment::at(0);

/// What has to come out.
pub(crate) struct Expected {
    keys: KeyRing,
    /// In the order of the tokens' ids, in which nothing may overtake.
    secrets: Vec<[u8; 32]>,
}

impl Expected {
    pub(crate) fn of(secrets: Vec<[u8; 32]>) -> Result<Self> {
        Ok(Self { keys: KeyRing::of(SharedKey::from_hex(KEY)?), secrets })
    }

    /// Compares with what a collector printed.
    pub(crate) fn check(&self, output: &[u8]) -> Result<()> {
        let text = str::from_utf8(output)?.strip_suffix('\n').context("the last line is cut short")?;
        let mut secrets = self.secrets.iter();
        for line in text.split('\n') {
            let fields: Vec<&str> = line.split(',').collect();
            ensure!(fields.len().is_multiple_of(5), "a line does not have five fields a token");
            for token in fields.chunks(5).map(|fields| fields[3]) {
                let token = UntrustedToken::parse(token)?.verify(&self.keys, Link::activation(), NOW)?;
                let expected = secrets.next().context("a token came out that does not wait")?;
                ensure!(token.secret().as_bytes() == expected, "a token is missing, or came out twice");
            }
        }
        ensure!(secrets.next().is_none(), "not all tokens came out");
        Ok(())
    }
}

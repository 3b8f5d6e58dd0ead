//! Whether every token came out, once, and genuine.

use std::collections::HashSet;

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::KEY;
use mailroom_verifier_core::{Expected as Link, KeyRing, Moment, SharedKey, UntrustedToken};

use crate::contestant::Kind;

/// Tokens of v1 carry no expiry that it could be compared with.
const NOW: Moment = Moment::at(0);

/// What has to come out.
pub(crate) struct Expected {
    keys: KeyRing,
    /// In the order of the tokens' ids.
    secrets: Vec<[u8; 32]>,
}

impl Expected {
    pub(crate) fn of(secrets: Vec<[u8; 32]>) -> Result<Self> {
        Ok(Self { keys: KeyRing::of(SharedKey::from_hex(KEY)?), secrets })
    }

    /// Compares with what a collector printed: each token once, and with a cursor in the order of their ids.
    pub(crate) fn check(&self, kind: Kind, output: &[u8]) -> Result<()> {
        let text = str::from_utf8(output)?.strip_suffix('\n').context("the last line is cut short")?;
        let mut secrets = Vec::with_capacity(self.secrets.len());
        for line in text.split('\n') {
            let fields: Vec<&str> = line.split(',').collect();
            ensure!(fields.len().is_multiple_of(5), "a line does not have five fields a token");
            for token in fields.chunks(5).map(|fields| fields[3]) {
                let token = UntrustedToken::parse(token)?.verify(&self.keys, Link::activation(), NOW)?;
                secrets.push(*token.secret().as_bytes());
            }
        }
        if kind == Kind::Cursor {
            ensure!(secrets == self.secrets, "a token is missing, came out twice, or overtook another");
            return Ok(());
        }
        let expected: HashSet<&[u8; 32]> = self.secrets.iter().collect();
        let count = secrets.len();
        let different: HashSet<&[u8; 32]> = secrets.iter().collect();
        ensure!(different == expected, "a token is missing, or one came out that does not wait");
        ensure!(count == different.len(), "a token came out twice");
        Ok(())
    }
}

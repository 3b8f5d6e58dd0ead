//! How long the core takes to verify a v1 activation on this processor.
//!
//! `cargo bench --package mailroom-verifier-core` prints the median of many rounds. With `--rounds`
//! the caller sets the pace, so that it can alternate with other programs: the first line of
//! standard input is the key, the next lines are tokens, and an empty line ends them; then each
//! line is a number of verifications, answered by a line with the nanoseconds they took and how
//! many tokens were accepted.

use std::hint::black_box;
use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

use mailroom_verifier_core::{Expected, KeyRing, Moment, Secret, SharedKey, UntrustedToken, v1};

const ROUNDS: usize = 200;
const VERIFICATIONS: usize = 20_000;

fn main() -> io::Result<()> {
    if std::env::args().any(|argument| argument == "--rounds") {
        answer(io::stdin().lock())
    } else {
        measure()
    }
}

fn answer(input: impl BufRead) -> io::Result<()> {
    let mut lines = input.lines();
    let Some(key) = lines.next().transpose()? else { return Ok(()) };
    let ring = KeyRing::of(SharedKey::from_hex(key.trim()).map_err(io::Error::other)?);
    let mut tokens = Vec::new();
    for line in lines.by_ref() {
        match line?.as_str() {
            "" => break,
            token => tokens.push(token.to_owned()),
        }
    }
    for line in lines {
        let verifications = line?.trim().parse().map_err(io::Error::other)?;
        let (elapsed, accepted) = round(&ring, &tokens, verifications);
        println!("{} {accepted}", elapsed.as_nanos());
        io::stdout().flush()?;
    }
    Ok(())
}

fn measure() -> io::Result<()> {
    let key = SharedKey::from(&[0x5a; SharedKey::LENGTH]);
    let secrets = (0..=u8::MAX).map(|number| Secret::from([number; Secret::LENGTH]));
    let tokens: Vec<_> =
        secrets.map(|secret| v1::sign_activation(&key, &secret).as_str().to_owned()).collect();
    let ring = KeyRing::of(key);
    let mut rounds: Vec<_> = (0..ROUNDS).map(|_| round(&ring, &tokens, VERIFICATIONS).0).collect();
    rounds.sort_unstable();
    let median = rounds[ROUNDS / 2].as_nanos() / VERIFICATIONS as u128;
    writeln!(io::stdout(), "verify a v1 activation: {median} ns (median of {ROUNDS} rounds)")
}

/// Verifies one token after the other, from the start again when they are used up.
fn round(ring: &KeyRing, tokens: &[String], verifications: usize) -> (Duration, usize) {
    let started = Instant::now();
    let accepted = tokens
        .iter()
        .cycle()
        .take(verifications)
        .filter(|token| {
            let token = UntrustedToken::parse(black_box(token.as_bytes()));
            token.is_ok_and(|token| {
                token.verify(ring, Expected::activation(), Moment::at(0)).is_ok()
            })
        })
        .count();
    (started.elapsed(), accepted)
}

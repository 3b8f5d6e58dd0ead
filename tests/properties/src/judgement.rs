//! Tokens that are signed, altered and judged: what a random string would never reach.

use arbitrary::{Arbitrary, Unstructured};
use mailroom_verifier_core::{Action, Code, Expiry, Grant, KeyRing, Purpose, Secret};

use crate::oracle::{self, Question};
use crate::ring::KEYS;
use crate::token::assert_verdicts_agree;

/// A signer, what becomes of the token on its way, and a verifier.
#[derive(Arbitrary, Debug)]
struct Case {
    key: u8,
    /// A shared key signs v1.
    old: bool,
    recovery: bool,
    secret: [u8; 32],
    expires_at: u64,
    code: u32,
    alterations: Vec<Alteration>,
    /// One bit for each key.
    ring: u16,
    expects_recovery: bool,
    typed: Typed,
    now: Clock,
    tolerance: u16,
}

#[derive(Arbitrary, Debug)]
enum Alteration {
    Byte { at: u8, by: u8 },
    Character { at: u8, to: u8 },
    Cut { at: u8 },
    Insert { at: u8, character: u8 },
}

#[derive(Arbitrary, Debug)]
enum Typed {
    Nothing,
    TheCode,
    Digits(u32),
    Anything(Vec<u8>),
}

#[derive(Arbitrary, Debug)]
enum Clock {
    FromExpiry(i16),
    Absolute(u64),
}

/// Reads who signs what, how it is altered and who verifies it.
///
/// # Panics
/// If the token differs from what the oracle makes, or its verdict from the oracle's.
pub fn judgement(data: &[u8]) {
    let Ok(case) = Case::arbitrary_take_rest(Unstructured::new(data)) else { return };
    let code = digits(case.code);
    let expires_at = case.expires_at % (Expiry::MAX.seconds() + 1);
    let text = altered(&sign(&case, &code, expires_at), &case.alterations);

    let keys = KEYS.iter().enumerate().filter(|(index, _)| case.ring >> index & 1 == 1);
    let (oracle, verifying): (Vec<_>, Vec<_>) =
        keys.map(|(_, key)| (key.oracle(), key.verifying.clone())).unzip();
    let Ok(ring) = KeyRing::new(verifying) else {
        assert!(oracle.is_empty(), "a ring with keys was refused");
        return;
    };
    let typed = match case.typed {
        Typed::Nothing => None,
        Typed::TheCode => Some(code),
        Typed::Digits(number) => Some(digits(number)),
        Typed::Anything(text) => Some(text),
    };
    let now = match case.now {
        Clock::FromExpiry(seconds) => expires_at.saturating_add_signed(seconds.into()),
        Clock::Absolute(seconds) => seconds,
    };
    let question = Question {
        action: action(case.expects_recovery),
        code: typed.as_deref(),
        now,
        tolerance: case.tolerance.into(),
    };
    assert_verdicts_agree(&text, &ring, &oracle, question);
}

fn action(recovery: bool) -> Action {
    if recovery { Action::Recover } else { Action::Activate }
}

fn digits(number: u32) -> Vec<u8> {
    format!("{:05}", number % 100_000).into_bytes()
}

/// The token, which the core and the oracle make alike.
fn sign(case: &Case, code: &[u8], expires_at: u64) -> Vec<u8> {
    let key = &KEYS[usize::from(case.key) % KEYS.len()];
    let (version, signer) = key.signer(case.old);
    let digits = Code::parse(code).expect("five digits were made");
    let purpose = if case.recovery { Purpose::Recovery(&digits) } else { Purpose::Activation };
    let secret = Secret::from(case.secret);
    let expiry = Expiry::from_seconds(expires_at).expect("it was reduced");
    let token = signer.sign(Grant { secret: &secret, purpose, expires_at: expiry });
    let expected = oracle::sign(version, key.oracle(), action(case.recovery), &case.secret, expires_at, code);
    assert_eq!(token.as_str().as_bytes(), expected, "{:?}", String::from_utf8_lossy(&expected));
    expected
}

/// The token after at most eight alterations, first of its bytes and then of its characters.
fn altered(token: &[u8], alterations: &[Alteration]) -> Vec<u8> {
    let alterations = &alterations[..alterations.len().min(8)];
    let mut bytes = oracle::decode(token).expect("a token was made");
    for alteration in alterations {
        if let Alteration::Byte { at, by } = alteration {
            let at = usize::from(*at) % bytes.len();
            bytes[at] ^= by;
        }
    }
    let mut text = oracle::encode(&bytes);
    for alteration in alterations {
        match *alteration {
            Alteration::Byte { .. } => {}
            Alteration::Character { at, to } => {
                if let Some(character) = text.get_mut(usize::from(at)) {
                    *character = to;
                }
            }
            Alteration::Cut { at } => text.truncate(at.into()),
            Alteration::Insert { at, character } => text.insert(usize::from(at).min(text.len()), character),
        }
    }
    text
}

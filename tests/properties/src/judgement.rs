//! Tokens that are signed, altered and judged: what a random string would never reach.

use arbitrary::{Arbitrary, Unstructured};
use mailroom_verifier_core::{Action, Binding, Code, Expiry, Grant, KeyRing, Secret, Unsignable};

use crate::oracle::{self, Question};
use crate::ring::{ACTIONS, KEYS, KNOWN, action};
use crate::token::assert_verdicts_agree;

/// A signer, what becomes of the token on its way, and a verifier.
#[derive(Arbitrary, Debug)]
struct Case {
    key: u8,
    /// A shared key signs v1.
    old: bool,
    action: u8,
    secret: [u8; 32],
    expires_at: u64,
    code: u32,
    alterations: Vec<Alteration>,
    /// One bit for each key.
    ring: u16,
    expected: u8,
    typed: Typed,
    now: Clock,
    tolerance: u16,
    /// The random bytes of the browser that the link is for.
    browser: Option<[u8; 32]>,
    visitor: Visitor,
}

#[derive(Arbitrary, Debug)]
enum Visitor {
    Nobody,
    TheBrowser,
    Another([u8; 32]),
    Anything(Vec<u8>),
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
    let signed = action(case.action);
    let code = digits(case.code, signed);
    let expires_at = case.expires_at % (Expiry::MAX.seconds() + 1);
    let nonce = case.browser.map(|random| oracle::encode(&random));
    let Some(token) = sign(&case, signed, &code, expires_at, nonce.as_deref()) else { return };
    let text = altered(&token, &case.alterations);

    let keys = KEYS.iter().enumerate().filter(|(index, _)| case.ring >> index & 1 == 1);
    let (oracle, verifying): (Vec<_>, Vec<_>) =
        keys.map(|(_, key)| (key.oracle(), key.verifying.clone())).unzip();
    let Ok(ring) = KeyRing::new(verifying).map(|ring| ring.knowing(&*ACTIONS)) else {
        assert!(oracle.is_empty(), "a ring with keys was refused");
        return;
    };
    let typed = match case.typed {
        Typed::Nothing => None,
        Typed::TheCode => Some(code),
        Typed::Digits(number) => Some(digits(number, signed)),
        Typed::Anything(text) => Some(text),
    };
    let visitor = match case.visitor {
        Visitor::Nobody => None,
        Visitor::TheBrowser => nonce,
        Visitor::Another(random) => Some(oracle::encode(&random)),
        Visitor::Anything(text) => Some(text),
    };
    let now = match case.now {
        Clock::FromExpiry(seconds) => expires_at.saturating_add_signed(seconds.into()),
        Clock::Absolute(seconds) => seconds,
    };
    let question = Question {
        action: action(case.expected),
        known: &KNOWN,
        code: typed.as_deref(),
        nonce: visitor.as_deref(),
        now,
        tolerance: case.tolerance.into(),
    };
    assert_verdicts_agree(&text, &ring, &oracle, question);
}

/// A code of the action, or of five digits for one that has none.
fn digits(number: u32, action: Action) -> Vec<u8> {
    let length = action.digits().max(5);
    format!("{:0width$}", number % 10_u32.pow(length.into()), width = length.into()).into_bytes()
}

/// The token, which the core and the oracle make alike; nothing for what v1 has not,
/// which the core refuses.
fn sign(
    case: &Case,
    action: Action,
    code: &[u8],
    expires_at: u64,
    nonce: Option<&[u8]>,
) -> Option<Vec<u8>> {
    let key = &KEYS[usize::from(case.key) % KEYS.len()];
    let (version, signer) = key.signer(case.old);
    let digits = Code::parse(code).expect("digits were made");
    let digits = (action.digits() > 0).then_some(&digits);
    let secret = Secret::from(case.secret);
    let expiry = Expiry::from_seconds(expires_at).expect("it was reduced");
    let binding = nonce.map(|nonce| Binding::of_nonce(nonce).expect("it was made"));
    let grant = Grant {
        secret: &secret,
        action,
        code: digits,
        expires_at: expiry,
        binding: binding.as_ref(),
    };
    let token = signer.sign(grant);
    if version == 1 && binding.is_some() {
        assert_eq!(token.err(), Some(Unsignable::BoundInV1));
        return None;
    }
    if version == 1 && matches!(action, Action::Further(_)) {
        assert_eq!(token.err(), Some(Unsignable::FurtherInV1));
        return None;
    }
    let token = token.expect("the code is the action's");
    let expected = oracle::sign_for(
        version,
        key.oracle(),
        action,
        &case.secret,
        expires_at,
        code,
        nonce.and_then(oracle::binding_of),
    );
    assert_eq!(token.as_str().as_bytes(), expected, "{:?}", String::from_utf8_lossy(&expected));
    Some(expected)
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
            Alteration::Insert { at, character } => {
                text.insert(usize::from(at).min(text.len()), character);
            }
        }
    }
    text
}

//! Links that are redeemed through a guard, in any order, by clocks that agree on nothing.

use std::cell::RefCell;
use std::sync::LazyLock;

use arbitrary::{Arbitrary, Unstructured};
use mailroom_verifier_core::{
    Action, Attempt, Code, ConsumedId, Consumption, Expected, Expiry, Full, Guard, KeyRing,
    MemoryCache, Moment, Owner, RedeemError, Secret, Slot, Unusable, VerifiedLink, VerifiedToken,
    VerifyError, VerifyingKey,
};

use crate::oracle;
use crate::ring::KEYS;
use crate::store::{Clock, Model};

/// When the first links are made.
const NOW: u64 = 1_800_000_000;
/// By how much the clocks of those who share a store may differ.
const MARGIN: u64 = 300;
/// The largest tolerance.
const TOLERANCE: u64 = 999;
/// The code of every recovery.
const CODE: &[u8; 5] = b"04711";

/// A row of the database.
struct Row {
    recovery: bool,
    expires_at: u64,
}

const ROWS: [Row; 4] = [
    Row { recovery: false, expires_at: NOW + 900 },
    Row { recovery: true, expires_at: NOW + 900 },
    Row { recovery: true, expires_at: NOW + 60 },
    Row { recovery: false, expires_at: Expiry::MAX.seconds() },
];

/// Places in [`KEYS`] of those that the guard knows: a shared key and a private one. The next of
/// each is unknown to it.
const GENUINE: [usize; 2] = [4, 9];

type Verdict = Result<(), RedeemError<Unusable, ()>>;

/// A guard, and what happens to it.
#[derive(Arbitrary, Debug)]
struct Scene {
    capacity: u8,
    max_code_attempts: u8,
    remember_v1_for: Option<u16>,
    tolerance: u16,
    events: Vec<Event>,
}

impl Scene {
    fn max_code_attempts(&self) -> u32 {
        u32::from(self.max_code_attempts) % 100 + 1
    }
}

#[derive(Arbitrary, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is one question that a fuzzer decides")]
struct Event {
    row: u8,
    version: u8,
    forged: bool,
    expects_recovery: bool,
    typed: Typed,
    now: Clock,
    compares_code: bool,
    callback_fails: bool,
}

#[derive(Arbitrary, Debug)]
enum Typed {
    Nothing,
    TheCode,
    Wrong,
    Malformed,
}

/// Tokens by row, version and whether they are forged.
static TOKENS: LazyLock<Vec<[[Vec<u8>; 2]; 3]>> = LazyLock::new(|| {
    let sign = |row: usize, version: u8, forged: bool| {
        let kind = usize::from(version == 3);
        let key = KEYS[GENUINE[kind] + usize::from(forged)].oracle();
        oracle::sign(version, key, ROWS[row].action(), &secret(row), ROWS[row].expires_at, CODE)
    };
    let both = |row, version| [sign(row, version, false), sign(row, version, true)];
    (0..ROWS.len()).map(|row| [both(row, 1), both(row, 2), both(row, 3)]).collect()
});

static RING: LazyLock<KeyRing<Vec<VerifyingKey>>> = LazyLock::new(|| {
    KeyRing::new(GENUINE.map(|place| KEYS[place].verifying.clone()).to_vec())
        .expect("there are keys")
});

impl Row {
    fn action(&self) -> Action {
        if self.recovery { Action::Recover } else { Action::Activate }
    }
}

fn secret(row: usize) -> [u8; 32] {
    [u8::try_from(row).expect("there are few rows"); 32]
}

/// Reads a guard and up to 64 redemptions.
///
/// # Panics
/// If a verdict differs from the guard's rules as [`judge`] has them, if an effect runs without
/// consent, if a link of v2 or v3 has its effect twice,
/// or if more codes get a verdict than are allowed.
pub fn redeem(data: &[u8]) {
    let Ok(mut scene) = Scene::arbitrary_take_rest(Unstructured::new(data)) else { return };
    scene.events.truncate(64);
    let capacity = usize::from(scene.capacity % 6);
    let store = RefCell::new(MemoryCache::new(vec![Slot::EMPTY; capacity]));
    let guard = Guard::new(RING.clone(), &store);
    let guard = guard.max_code_attempts(scene.max_code_attempts()).expect("it is from 1 to 100");
    let guard = match scene.remember_v1_for {
        Some(seconds) => guard.remember_v1_for(seconds.into()),
        None => guard,
    };

    let mut model = Model::new(capacity);
    let mut now = NOW;
    let mut effects = [0; ROWS.len()];
    let mut verdicts = [0; ROWS.len()];
    for (owner, event) in (0..).zip(&scene.events) {
        let owner = Owner::from_random([owner; 16]);
        now = event.now.after(now);
        let row = usize::from(event.row) % ROWS.len();
        let version = usize::from(event.version % 3);
        let token = &TOKENS[row][version][usize::from(event.forged)];
        let expected = Expected {
            action: action(event.expects_recovery),
            code: event.typed.text(),
            binding: None,
        };
        let moment = Moment::at(now).tolerating(scene.tolerance.into());

        let mut ran = false;
        let callback = |token: &VerifiedToken| {
            ran = true;
            assert_eq!(token.code_is_proven(), event.expects_recovery);
            if event.callback_fails { Err(()) } else { Ok(()) }
        };
        let verdict = if event.compares_code {
            guard.redeem_with(token, expected, moment, owner, compare, callback)
        } else {
            guard.redeem(token, expected, moment, owner, callback)
        };
        assert_eq!(verdict, judge(&mut model, &scene, event, owner, moment), "{event:?} at {now}");
        assert_eq!(
            ran,
            matches!(verdict, Ok(()) | Err(RedeemError::Callback(()))),
            "{event:?} at {now}"
        );
        assert_eq!(usize::try_from(store.borrow().len()), Ok(model.len()));

        effects[row] += u32::from(verdict.is_ok());
        verdicts[row] += u32::from(tells_about_the_code(event, verdict));
    }
    for (row, count) in verdicts.into_iter().enumerate() {
        assert!(count <= scene.max_code_attempts(), "{count} codes of row {row} got a verdict");
    }
    // Remembering v1 is limited by what the caller says, and a row may be sent in v1, too.
    if scene.remember_v1_for.is_none() {
        assert!(effects.into_iter().all(|count| count <= 1), "{effects:?}");
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the guard's comparison may fail")]
fn compare(_: &VerifiedLink<'_>, code: &Code) -> Result<bool, ()> {
    Ok(code.as_bytes() == CODE)
}

fn action(recovery: bool) -> Action {
    if recovery { Action::Recover } else { Action::Activate }
}

impl Typed {
    fn text(&self) -> Option<&'static [u8]> {
        match self {
            Self::Nothing => None,
            Self::TheCode => Some(CODE),
            Self::Wrong => Some(b"04712"),
            Self::Malformed => Some(b"4711"),
        }
    }
}

/// Whether who redeems a recovery learns from the verdict if the code was right.
fn tells_about_the_code(event: &Event, verdict: Verdict) -> bool {
    let told = match verdict {
        Ok(()) | Err(RedeemError::Used | RedeemError::Callback(())) => true,
        Err(error) => error == RedeemError::Token(VerifyError::CodeMismatch),
    };
    event.expects_recovery && told
}

/// The rules of the guard: every other check first, then a number for the code, consumption last.
fn judge(store: &mut Model, scene: &Scene, event: &Event, owner: Owner, moment: Moment) -> Verdict {
    let row = usize::from(event.row) % ROWS.len();
    let version = event.version % 3 + 1;
    let Row { recovery, expires_at } = ROWS[row];
    let refused = |error: VerifyError| Err(RedeemError::Token(error));
    let now = moment.now;
    let id = ConsumedId::of(&Secret::from(secret(row)));

    let until = if version == 1 {
        if event.expects_recovery {
            return Err(RedeemError::UncheckedRecovery);
        }
        let Some(seconds) = scene.remember_v1_for else { return Err(RedeemError::NoExpiry) };
        if event.typed.text().is_some() {
            return refused(VerifyError::CodeUncheckable);
        }
        if event.forged || recovery {
            return refused(VerifyError::Signature);
        }
        now.saturating_add(u64::from(seconds) + MARGIN)
    } else {
        if event.forged {
            return refused(VerifyError::Signature);
        }
        if recovery != event.expects_recovery {
            return refused(VerifyError::Action { found: action(recovery).number() });
        }
        if now >= expires_at + u64::from(scene.tolerance).min(TOLERANCE) {
            let expires_at = Expiry::from_seconds(expires_at).expect("every row has an expiry");
            return refused(VerifyError::Expired { now, expires_at });
        }
        expires_at + TOLERANCE + MARGIN
    };
    if recovery {
        match event.typed {
            Typed::Nothing => return refused(VerifyError::CodeRequired { digits: 5 }),
            Typed::Malformed => return refused(VerifyError::CodeMalformed { digits: 5 }),
            Typed::TheCode | Typed::Wrong => {}
        }
        if version == 3 && !event.compares_code {
            return Err(RedeemError::UncheckedRecovery);
        }
        match store.attempt(id, owner, until, now).map_err(full)? {
            Attempt::TooLate => return Err(RedeemError::TooLate),
            Attempt::Number(number) if number <= scene.max_code_attempts() => {}
            Attempt::Number(_) | Attempt::TooMany => return Err(RedeemError::TooManyAttempts),
        }
        if matches!(event.typed, Typed::Wrong) {
            return refused(VerifyError::CodeMismatch);
        }
    } else if event.typed.text().is_some() {
        return refused(VerifyError::CodeUncheckable);
    }
    match store.consume(id, owner, until, now).map_err(full)? {
        Consumption::TooLate => return Err(RedeemError::TooLate),
        Consumption::AlreadyUsed => return Err(RedeemError::Used),
        Consumption::FirstUse => {}
    }
    if event.callback_fails {
        store.release(id, owner, until, now).map_err(full)?;
        return Err(RedeemError::Callback(()));
    }
    Ok(())
}

fn full(_: Full) -> RedeemError<Unusable, ()> {
    RedeemError::StoreFull
}

//! How long each operation of the core takes on this processor.
//!
//! `cargo bench --package mailroom-verifier-core --bench operations` lets all operations take
//! turns, so that what else the machine does falls on all of them, and prints the median of each,
//! its fastest round and its ratio to the first. A word behind `--` picks the operations whose
//! names contain it.

use std::cell::RefCell;
use std::convert::Infallible;
use std::hint::black_box;
use std::time::{Duration, Instant};

use mailroom_verifier_core::{
    Action, Code, ConsumedId, Consumption, Expected, Expiry, Grant, Guard, KeyRing, MemoryCache,
    Moment, Owner, PrivateKey, Secret, SharedKey, Signer, Slot, UntrustedToken, VerifiedToken,
    VerifyingKey,
};

/// Many short rounds: one that the operating system interrupts says nothing, and most of these are
/// shorter than its slices.
const ROUNDS: usize = 1001;
const NOW: u64 = 1_800_000_000;
const EXPIRY: u64 = NOW + 900;
const CODE: &str = "04711";
/// Tokens that take turns, so that no branch is predicted by heart.
const TOKENS: u32 = 256;

type Ring = KeyRing<Vec<VerifyingKey>>;

/// An operation, how often a round repeats it, and how long each round took.
struct Operation<'a> {
    name: &'static str,
    repetitions: u32,
    run: Box<dyn FnMut(u32) + 'a>,
    rounds: Vec<Duration>,
}

impl<'a> Operation<'a> {
    fn new(name: &'static str, repetitions: u32, run: impl FnMut(u32) + 'a) -> Self {
        Self { name, repetitions, run: Box::new(run), rounds: Vec::new() }
    }

    fn round(&mut self) {
        let started = Instant::now();
        (self.run)(self.repetitions);
        self.rounds.push(started.elapsed());
    }

    /// The median and the fastest round, in nanoseconds for one operation.
    fn figures(&mut self) -> [f64; 2] {
        self.rounds.sort_unstable();
        [self.rounds.len() / 2, 0]
            .map(|place| self.rounds[place].as_secs_f64() * 1e9 / f64::from(self.repetitions))
    }
}

fn main() {
    let shared = SharedKey::from(&[0x5a; 32]);
    let private = PrivateKey::from_seed(&[0x5a; 32]);
    let (v1, v2, v3) =
        (Signer::V1(shared.clone()), Signer::V2(shared.clone()), Signer::V3(private.clone()));
    let alone = ring([shared.clone().into()]);
    let public = ring([private.public_key().clone().into()]);
    let others = || (1..=u8::MAX).map(|number| SharedKey::from(&[number; 32]).into());
    let first_of_many = ring([shared.clone().into()].into_iter().chain(others().take(99)));
    let last_of_many = ring(others().take(99).chain([shared.clone().into()]));
    let none_of_many = ring(others().skip(100).take(100));
    let activation = |signer: &Signer| tokens(signer, None);
    let recovery = |signer: &Signer| tokens(signer, Some(CODE));

    let [redeemed, locked] = [(); 2].map(|()| fresh(&v2, 20 * ROUNDS));
    let in_cell = Guard::new(alone.clone(), RefCell::new(cache(1 << 16)));
    let in_mutex = Guard::new(alone.clone(), std::sync::Mutex::new(cache(1 << 16)));

    let mut operations = vec![
        verify("verify v1 activation", 256, &alone, activation(&v1), None),
        verify("verify v1 recovery with its code", 256, &alone, recovery(&v1), Some(CODE)),
        verify("verify v2 activation", 256, &alone, activation(&v2), None),
        verify("verify v2 recovery with its code", 256, &alone, recovery(&v2), Some(CODE)),
        verify(
            "verify v2 activation, first of 100 keys",
            256,
            &first_of_many,
            activation(&v2),
            None,
        ),
        verify("verify v2 activation, last of 100 keys", 256, &last_of_many, activation(&v2), None),
        refuse("refuse v2 activation, none of 100 keys", 256, &none_of_many, activation(&v2)),
        verify("verify v3 activation", 4, &public, activation(&v3), None),
        sign("sign v1 activation", 256, &v1),
        sign("sign v2 activation", 256, &v2),
        sign("sign v3 activation", 4, &v3),
        consume("consume, 1,000 live entries", 1_000),
        consume("consume, 100,000 live entries", 100_000),
        consume_again("consume a used id", 100_000),
        redeem("redeem v2 activation, for one thread", &in_cell, redeemed),
        redeem("redeem v2 activation, behind a mutex", &in_mutex, locked),
    ];
    if let Some(word) = std::env::args().skip(1).find(|argument| !argument.starts_with("--")) {
        operations.retain(|operation| operation.name.contains(&word));
    }
    for _ in 0..ROUNDS {
        operations.iter_mut().for_each(Operation::round);
    }

    let unit = operations.first_mut().map_or(f64::NAN, |first| first.figures()[0]);
    println!(
        "{:42} {:>10} {:>10} {:>12} {:>8}",
        "", "median ns", "fastest ns", "a second", "ratio"
    );
    for operation in &mut operations {
        let [median, fastest] = operation.figures();
        let (a_second, ratio) = (1e9 / median, median / unit);
        println!("{:42} {median:10.1} {fastest:10.1} {a_second:12.0} {ratio:8.2}", operation.name);
    }
}

fn ring(keys: impl IntoIterator<Item = VerifyingKey>) -> Ring {
    KeyRing::new(keys.into_iter().collect()).expect("every ring of this program has a key")
}

fn cache(capacity: usize) -> MemoryCache<Vec<Slot>> {
    MemoryCache::new(vec![Slot::EMPTY; capacity])
}

fn token(signer: &Signer, number: u32, code: Option<&str>) -> String {
    let code = code.map(|digits| Code::parse(digits).expect("five digits"));
    let mut secret = [7; 32];
    secret[..4].copy_from_slice(&number.to_be_bytes());
    let action = if code.is_some() { Action::Recover } else { Action::Activate };
    let expires_at = Expiry::from_seconds(EXPIRY).expect("before the year 9999");
    let grant = Grant {
        secret: &Secret::from(secret),
        action,
        code: code.as_ref(),
        expires_at,
        binding: None,
    };
    signer.sign(grant).expect("the code is the action's").to_string()
}

fn tokens(signer: &Signer, code: Option<&str>) -> Vec<String> {
    (0..TOKENS).map(|number| token(signer, number, code)).collect()
}

/// Tokens, each redeemed once in all rounds.
fn fresh(signer: &Signer, number: usize) -> Vec<String> {
    let number = u32::try_from(number).expect("a few thousand tokens");
    (0..number).map(|number| token(signer, number, None)).collect()
}

fn verified<'a>(
    ring: &'a Ring,
    tokens: Vec<String>,
    code: Option<&'a str>,
) -> impl FnMut(u32) -> usize + 'a {
    let expected = code.map_or(Expected::activation(), Expected::recovery);
    move |repetitions| {
        let tokens = tokens.iter().cycle().take(repetitions as usize);
        let accepted = tokens.filter(|token| {
            UntrustedToken::parse(black_box(token.as_bytes()))
                .is_ok_and(|token| token.verify(ring, expected, Moment::at(NOW)).is_ok())
        });
        accepted.count()
    }
}

fn verify<'a>(
    name: &'static str,
    repetitions: u32,
    ring: &'a Ring,
    tokens: Vec<String>,
    code: Option<&'a str>,
) -> Operation<'a> {
    let mut verified = verified(ring, tokens, code);
    Operation::new(name, repetitions, move |number| assert_eq!(verified(number), number as usize))
}

fn refuse<'a>(
    name: &'static str,
    repetitions: u32,
    ring: &'a Ring,
    tokens: Vec<String>,
) -> Operation<'a> {
    let mut verified = verified(ring, tokens, None);
    Operation::new(name, repetitions, move |number| assert_eq!(verified(number), 0))
}

fn sign<'a>(name: &'static str, repetitions: u32, signer: &'a Signer) -> Operation<'a> {
    let secret = Secret::from([7; 32]);
    let expires_at = Expiry::from_seconds(EXPIRY).expect("before the year 9999");
    Operation::new(name, repetitions, move |number| {
        for _ in 0..number {
            let secret = black_box(&secret);
            let _ = black_box(signer.sign(Grant {
                secret,
                action: Action::Activate,
                code: None,
                expires_at,
                binding: None,
            }));
        }
    })
}

/// Ids as good as digests: all bits of the number spread over all bytes.
fn id(number: u64) -> ConsumedId {
    let mut bytes = [0; 16];
    for (half, factor) in
        bytes.chunks_exact_mut(8).zip([0x9e37_79b9_7f4a_7c15_u64, 0xd6e8_feb8_6659_fd93])
    {
        let mixed = number.wrapping_add(1).wrapping_mul(factor);
        half.copy_from_slice(&(mixed ^ mixed >> 32).wrapping_mul(factor).to_le_bytes());
    }
    ConsumedId::from(bytes)
}

fn owner(number: u64) -> Owner {
    Owner::from_random(*id(!number).as_bytes())
}

/// Every id is new and the clock moves on, so that for each entry one is forgotten.
fn consume<'a>(name: &'static str, live: u32) -> Operation<'a> {
    const LIFETIME: u64 = 1_000;
    let mut cache = cache(live as usize + live as usize / 10);
    let a_second = u64::from(live) / LIFETIME;
    let mut next: u64 = 0;
    Operation::new(name, 1_000, move |number| {
        for _ in 0..number {
            let now = NOW + next / a_second;
            assert_eq!(
                cache.consume(id(next), owner(next), now + LIFETIME, now),
                Ok(Consumption::FirstUse)
            );
            next += 1;
        }
    })
}

fn consume_again<'a>(name: &'static str, live: u32) -> Operation<'a> {
    let mut cache = cache(live as usize);
    for number in 0..live {
        let _ = cache.consume(id(number.into()), owner(0), EXPIRY, NOW);
    }
    let mut next: u32 = 0;
    Operation::new(name, 1_000, move |number| {
        for _ in 0..number {
            next = (next + 1) % live;
            let again = cache.consume(id(next.into()), owner(1), EXPIRY, NOW);
            assert_eq!(again, Ok(Consumption::AlreadyUsed));
        }
    })
}

fn redeem<'a, S>(
    name: &'static str,
    guard: &'a Guard<Vec<VerifyingKey>, S>,
    tokens: Vec<String>,
) -> Operation<'a>
where
    S: mailroom_verifier_core::ConsumedTokens,
    S::Error: std::fmt::Debug,
{
    let repetitions = u32::try_from(tokens.len() / ROUNDS).expect("a few thousand tokens");
    let mut tokens = tokens.into_iter();
    let effect = |_: &VerifiedToken| Ok::<_, Infallible>(());
    Operation::new(name, repetitions, move |number| {
        for (next, token) in (0..).zip(tokens.by_ref().take(number as usize)) {
            let token = black_box(token);
            let redeemed =
                guard.redeem(token, Expected::activation(), Moment::at(NOW), owner(next), effect);
            assert!(redeemed.is_ok(), "{name}");
        }
    })
}

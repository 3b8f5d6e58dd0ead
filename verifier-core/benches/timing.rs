//! Whether the time of a verification says anything about a tag, by the method of dudect (Reparaz,
//! Balasch and Verbauwhede, "Dude, is my code constant time?", 2017).
//!
//! `cargo bench --package mailroom-verifier-core --bench timing [-- SECONDS]` times two classes of
//! inputs in random order and compares them by Welch's t-test, over all times and over those below
//! several limits, since interruptions only make times longer. The largest |t| of each test is
//! printed: below 4.5 nothing was found, above 10 there is a leak. This is a measurement on one
//! processor and no proof. The last test compares byte by byte, so that one sees what the method
//! finds where there is something to find.

use std::hint::black_box;
use std::time::{Duration, Instant};

use base64ct::{Base64UrlUnpadded, Encoding};
use fastrand::Rng;
use mailroom_verifier_core::{
    Action, Code, Expected, Expiry, Grant, KeyRing, Moment, PrivateKey, Secret, SharedKey, Signer,
    UntrustedToken, VerifyingKey,
};

const NOW: u64 = 1_800_000_000;
const CODE: &str = "04711";
/// Inputs that are made before any of them is timed.
const BATCH: usize = 10_000;
/// Limits below which times are compared, in percent of the first batch; the rest is interruptions.
const SHARES: [usize; 8] = [10, 30, 50, 70, 80, 90, 95, 99];

/// Two classes of inputs to one function.
struct Test<'a> {
    name: &'static str,
    classes: &'static str,
    input: MakeInput<'a>,
    run: Run<'a>,
}

/// Makes an input of one class or the other.
type MakeInput<'a> = Box<dyn Fn(bool, &mut Rng) -> Vec<u8> + 'a>;
/// What is timed.
type Run<'a> = Box<dyn Fn(&Input) + 'a>;

/// What the timed function gets. A token is decoded before: whoever sent it knows its characters,
/// and the table that decodes them takes a fifth of a nanosecond more or less for some, which is no
/// secret and would hide one.
#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "both lie at one place")]
enum Input {
    Token(UntrustedToken),
    Text([u8; 64]),
}

impl Input {
    fn new(bytes: &[u8]) -> Self {
        match bytes.try_into() {
            Ok(text) => Self::Text(text),
            Err(_) => Self::Token(UntrustedToken::parse(bytes).expect("only the tag is altered")),
        }
    }
}

fn main() {
    let seconds = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(10);
    let shared = SharedKey::from(&[0x5a; 32]);
    let private = PrivateKey::from_seed(&[0x5a; 32]);
    let keys = [VerifyingKey::from(shared.clone()), private.public_key().clone().into()];
    let ring = KeyRing::new(keys).expect("there are two keys");
    let (v1, v2) = (Signer::V1(shared.clone()), Signer::V2(shared));
    let refuse = |code: Option<&'static str>| {
        let (ring, expected) = (&ring, code.map_or(Expected::activation(), Expected::recovery));
        move |input: &Input| {
            let Input::Token(token) = black_box(input) else { return };
            assert!(black_box(token.verify(ring, expected, Moment::at(NOW))).is_err());
        }
    };
    let in_front = sign(&v2, None);
    let genuine_tag = decoded(&in_front)[46..78].to_vec();
    let leaky = |input: &Input| {
        let Input::Token(token) = black_box(input) else { return };
        // The same work, and then byte by byte, as a comparison is written by hand.
        let verdict = token.verify(&ring, Expected::activation(), Moment::at(NOW));
        let given = black_box(token.unauthenticated_tag());
        let equal = genuine_tag.iter().zip(given).all(|(found, given)| black_box(found) == given);
        assert!(!equal && verdict.is_err());
    };

    let tests = [
        first_or_last("v1 activation, tag", sign(&v1, None), 32..64, refuse(None)),
        random_or_fixed("v1 activation, tag", sign(&v1, None), 32..64, refuse(None)),
        first_or_last("v1 recovery, tag", sign(&v1, Some(CODE)), 32..64, refuse(Some(CODE))),
        first_or_last("v2 activation, tag", sign(&v2, None), 46..78, refuse(None)),
        random_or_fixed("v2 activation, tag", sign(&v2, None), 46..78, refuse(None)),
        first_or_last("v2 recovery, tag", sign(&v2, Some(CODE)), 46..78, refuse(Some(CODE))),
        first_or_last("v2 recovery, code's tag", sign(&v2, Some(CODE)), 78..93, refuse(Some(CODE))),
        random_or_fixed(
            "v2 recovery, code's tag",
            sign(&v2, Some(CODE)),
            78..93,
            refuse(Some(CODE)),
        ),
        hexadecimal_key(),
        first_or_last("control: compared byte by byte", in_front, 46..78, leaky),
    ];
    println!(
        "{:34} {:20} {:>10} {:>9} {:>10} {:>9}",
        "", "classes", "times", "median ns", "difference", "max |t|"
    );
    for test in &tests {
        measure(test, Duration::from_secs(seconds));
    }
}

/// The tag is wrong in its first byte, or in its last one only.
fn first_or_last<'a>(
    name: &'static str,
    token: Vec<u8>,
    tag: std::ops::Range<usize>,
    run: impl Fn(&Input) + 'a,
) -> Test<'a> {
    let input = move |class: bool, rng: &mut Rng| {
        let mut bytes = decoded(&token);
        let place = if class { tag.start } else { tag.end - 1 };
        bytes[place] ^= rng.u8(1..);
        encoded(&bytes)
    };
    Test { name, classes: "first or last byte", input: Box::new(input), run: Box::new(run) }
}

/// The tag is random, or always the same wrong one.
fn random_or_fixed<'a>(
    name: &'static str,
    token: Vec<u8>,
    tag: std::ops::Range<usize>,
    run: impl Fn(&Input) + 'a,
) -> Test<'a> {
    let input = move |class: bool, rng: &mut Rng| {
        let mut bytes = decoded(&token);
        let random: Vec<u8> = tag.clone().map(|_| rng.u8(..)).collect();
        bytes[tag.clone()].copy_from_slice(if class {
            &random
        } else {
            &[0x55; 32][..random.len()]
        });
        encoded(&bytes)
    };
    Test { name, classes: "random or fixed", input: Box::new(input), run: Box::new(run) }
}

/// The key is all digits or all letters, which a decoder with branches or tables tells apart.
fn hexadecimal_key<'a>() -> Test<'a> {
    let input = |class: bool, rng: &mut Rng| {
        let (digits, letters) = (rng.u64(..), rng.u64(..));
        let text = |from: u8, bits: u64| {
            (0..64).map(move |bit| from + u8::from(bits >> bit & 1 == 1)).collect()
        };
        if class { text(b'0', digits) } else { text(b'e', letters) }
    };
    let run = |input: &Input| {
        let Input::Text(text) = black_box(input) else { return };
        black_box(SharedKey::from_hex(text).expect("64 hexadecimal characters"));
    };
    let name = "shared key in hexadecimal";
    Test { name, classes: "digits or letters", input: Box::new(input), run: Box::new(run) }
}

fn sign(signer: &Signer, code: Option<&str>) -> Vec<u8> {
    let code = code.map(|digits| Code::parse(digits).expect("five digits"));
    let action = if code.is_some() { Action::Recover } else { Action::Activate };
    let expires_at = Expiry::from_seconds(NOW + 900).expect("before the year 9999");
    let grant = Grant {
        secret: &Secret::from([7; 32]),
        action,
        code: code.as_ref(),
        expires_at,
        binding: None,
    };
    signer.sign(grant).expect("the code is the action's").as_str().into()
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; text.len()];
    let length = Base64UrlUnpadded::decode(text, &mut bytes).expect("a token was made").len();
    bytes.truncate(length);
    bytes
}

fn encoded(bytes: &[u8]) -> Vec<u8> {
    Base64UrlUnpadded::encode_string(bytes).into_bytes()
}

fn measure(test: &Test<'_>, time: Duration) {
    let mut rng = Rng::with_seed(1);
    let mut limits = Vec::new();
    let mut comparisons = vec![Comparison::default(); SHARES.len() + 1];
    let started = Instant::now();
    while started.elapsed() < time {
        let mut times = batch(test, &mut rng);
        if limits.is_empty() {
            limits = limits_of(&mut times);
            continue;
        }
        for (class, time) in times {
            for (comparison, limit) in comparisons.iter_mut().zip(&limits) {
                if time <= *limit {
                    comparison.add(class, time);
                }
            }
        }
    }
    let t = comparisons.iter().map(|comparison| comparison.t().abs()).fold(0.0, f64::max);
    let all = comparisons.last().expect("there is one without a limit");
    let middle = &comparisons[SHARES.len() - 2];
    let (times, median, difference) = (all.count(), limits[2], middle.difference());
    let Test { name, classes, .. } = test;
    println!("{name:34} {classes:20} {times:10.0} {median:9.0} {difference:10.3} {t:9.2}");
}

/// Times a batch whose classes are in random order; all inputs lie at one place when they are read.
fn batch(test: &Test<'_>, rng: &mut Rng) -> Vec<(bool, f64)> {
    let classes: Vec<_> = (0..BATCH).map(|_| rng.bool()).collect();
    let inputs: Vec<_> =
        classes.iter().map(|class| Input::new(&(test.input)(*class, rng))).collect();
    let mut place = Input::Text([0; 64]);
    let times = inputs.iter().map(|input| {
        place.clone_from(input);
        let started = Instant::now();
        (test.run)(&place);
        started.elapsed().as_secs_f64() * 1e9
    });
    classes.iter().copied().zip(times).collect()
}

/// The times below which each share lies, and no limit at last.
fn limits_of(times: &mut [(bool, f64)]) -> Vec<f64> {
    times.sort_unstable_by(|(_, a), (_, b)| a.total_cmp(b));
    SHARES.iter().map(|share| times[share * BATCH / 100].1).chain([f64::INFINITY]).collect()
}

/// Count, mean and sum of squared deviations of both classes, kept by Welford's method.
#[derive(Clone, Default)]
struct Comparison([Moments; 2]);

#[derive(Clone, Default)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Comparison {
    fn add(&mut self, class: bool, time: f64) {
        let moments = &mut self.0[usize::from(class)];
        moments.count += 1.0;
        let deviation = time - moments.mean;
        moments.mean += deviation / moments.count;
        moments.squares += deviation * (time - moments.mean);
    }

    fn count(&self) -> f64 {
        self.0.iter().map(|moments| moments.count).sum()
    }

    /// By how many nanoseconds one class takes longer.
    fn difference(&self) -> f64 {
        self.0[1].mean - self.0[0].mean
    }

    /// Welch's t; nothing is said of a class with few times.
    fn t(&self) -> f64 {
        if self.0.iter().any(|moments| moments.count < 1_000.0) {
            return 0.0;
        }
        let variance = |moments: &Moments| moments.squares / (moments.count - 1.0) / moments.count;
        self.difference() / self.0.iter().map(variance).sum::<f64>().sqrt()
    }
}

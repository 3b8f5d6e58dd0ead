//! Numbers modulo 2²⁵⁵ - 19.

use core::ops::{Add, Mul, Neg, Sub};

/// Nine digits of 29 bits, the lowest first.
///
/// A settled number is below 2²⁵⁵ + 2¹³: the highest digit is below 2²³, the lowest one may exceed
/// its 29 bits by less than 2¹³, the others have 29 bits. Differences and products are settled. A
/// sum is not, since it is mostly multiplied next: its digits are twice as large, so that nine
/// products of two of them are below 2⁶⁴. A sum of sums must not be multiplied or subtracted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field([u64; DIGITS]);

const DIGITS: usize = 9;
const BITS: usize = 29;
const LOW: u64 = (1 << BITS) - 1;
/// The number of bits below 2²⁵⁵ that the highest digit has.
const TOP_BITS: usize = 255 - (DIGITS - 1) * BITS;
const TOP: u64 = (1 << TOP_BITS) - 1;

/// What 2²⁵⁵ is.
const FOLD: u64 = 19;
/// What the first power of two is that has no digit, 2²⁶¹.
const FOLD_ALL: u64 = FOLD << (DIGITS * BITS - 255);

/// Four times the modulus. Each of its digits is above that of every number and every sum.
const FOUR_TIMES: [u64; DIGITS] = {
    let mut digits = [4 * LOW; DIGITS];
    digits[0] = 4 * (LOW + 1 - FOLD);
    digits[DIGITS - 1] = 4 * TOP;
    digits
};

impl Field {
    pub(super) const ZERO: Self = Self([0; DIGITS]);
    pub(super) const ONE: Self = Self::from_words([1, 0, 0, 0]);

    /// The number of four words, the lowest first, without the highest bit.
    pub(super) const fn from_words([a, b, c, d]: [u64; 4]) -> Self {
        let words = [a, b, c, d, 0];
        let mut digits = [0; DIGITS];
        let mut at = 0;
        while at < DIGITS {
            let (word, shift) = (at * BITS / 64, at * BITS % 64);
            // Shifted in two steps, since a shift by all 64 bits is none.
            digits[at] = (words[word] >> shift | words[word + 1] << 1 << (63 - shift)) & LOW;
            at += 1;
        }
        digits[DIGITS - 1] &= TOP;
        Self(digits)
    }

    /// The least number that is the same; its highest bit is 0.
    pub(super) fn to_words(self) -> [u64; 4] {
        // Below twice the modulus; it is not below the modulus if 19 more reach 2²⁵⁵.
        let mut digits = self.0;
        digits[0] += FOLD;
        if settle(&mut digits) == 0 {
            digits = self.0;
            settle(&mut digits);
        }
        let mut words = [0; 5];
        for (at, digit) in digits.iter().enumerate() {
            let (word, shift) = (at * BITS / 64, at * BITS % 64);
            words[word] |= digit << shift;
            words[word + 1] |= digit >> 1 >> (63 - shift);
        }
        let [a, b, c, d, _] = words;
        [a, b, c, d]
    }

    pub(super) fn is_zero(self) -> bool {
        self.to_words() == [0; 4]
    }

    /// Whether the least number that is the same is odd (RFC 8032, section 5.1.2).
    pub(super) fn is_odd(self) -> bool {
        let [low, ..] = self.to_words();
        low & 1 == 1
    }

    fn squared_times(self, times: u8) -> Self {
        (0..times).fold(self, |number, _| number * number)
    }

    /// The power of 2²⁵² - 3, by which roots and inverses are found.
    pub(super) fn power(self) -> Self {
        // Powers of 2ⁿ - 1, for n = 1, 2, 4, 5, 10, 20, 40, 50, 100, 200 and 250: each is made of
        // two earlier ones, of which one is squared as often as the other has ones.
        const STEPS: [(usize, u8, usize); 10] = [
            (0, 1, 0),
            (1, 2, 1),
            (2, 1, 0),
            (3, 5, 3),
            (4, 10, 4),
            (5, 20, 5),
            (6, 10, 4),
            (7, 50, 7),
            (8, 100, 8),
            (9, 50, 7),
        ];
        let mut powers = [self; STEPS.len() + 1];
        for (at, (high, ones, low)) in (1..).zip(STEPS) {
            powers[at] = powers[high].squared_times(ones) * powers[low];
        }
        let [.., all] = powers;
        all.squared_times(2) * self
    }

    /// The number by which this one is 1; 0 of 0.
    pub(super) fn inverted(self) -> Self {
        // 2²⁵⁵ - 21 is 8 (2²⁵² - 3) + 3.
        self.power().squared_times(3) * self * self * self
    }
}

/// Carries from digit to digit, and takes away and returns what reaches 2²⁵⁵, divided by that.
fn settle(digits: &mut [u64; DIGITS]) -> u64 {
    let [lower @ .., top] = digits;
    let mut carry = 0;
    for digit in lower {
        *digit += carry;
        carry = *digit >> BITS;
        *digit &= LOW;
    }
    *top += carry;
    let beyond = *top >> TOP_BITS;
    *top &= TOP;
    beyond
}

/// The number of digits that are below 2⁴⁰, the highest below 2³¹.
fn settled(mut digits: [u64; DIGITS]) -> Field {
    let beyond = settle(&mut digits);
    digits[0] += FOLD * beyond;
    Field(digits)
}

// Not inlined, and by reference: a formula calls each of them many times.

#[inline(never)]
fn sum(one: &Field, other: &Field) -> Field {
    Field(core::array::from_fn(|at| one.0[at] + other.0[at]))
}

#[inline(never)]
fn difference(one: &Field, other: &Field) -> Field {
    settled(core::array::from_fn(|at| one.0[at] + FOUR_TIMES[at] - other.0[at]))
}

#[inline(never)]
fn product(one: &Field, other: &Field) -> Field {
    let mut digits = [0; 2 * DIGITS];
    // Not in a loop, so that the compiler keeps all digits in registers.
    add_row::<0>(&mut digits, one, other);
    add_row::<1>(&mut digits, one, other);
    add_row::<2>(&mut digits, one, other);
    add_row::<3>(&mut digits, one, other);
    add_row::<4>(&mut digits, one, other);
    add_row::<5>(&mut digits, one, other);
    add_row::<6>(&mut digits, one, other);
    add_row::<7>(&mut digits, one, other);
    add_row::<8>(&mut digits, one, other);
    let mut carry = 0;
    for digit in &mut digits {
        *digit += carry;
        carry = *digit >> BITS;
        *digit &= LOW;
    }
    settled(core::array::from_fn(|at| digits[at] + FOLD_ALL * digits[at + DIGITS]))
}

/// Adds the products of one digit and all of the other number.
#[expect(clippy::inline_always, reason = "as a call it would keep the digits in memory")]
#[inline(always)]
fn add_row<const AT: usize>(digits: &mut [u64; 2 * DIGITS], one: &Field, other: &Field) {
    for (at, digit) in other.0.iter().enumerate() {
        digits[AT + at] += one.0[AT] * digit;
    }
}

impl Add for Field {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        sum(&self, &other)
    }
}

impl Sub for Field {
    type Output = Self;

    #[inline]
    fn sub(self, other: Self) -> Self {
        difference(&self, &other)
    }
}

impl Mul for Field {
    type Output = Self;

    #[inline]
    fn mul(self, other: Self) -> Self {
        product(&self, &other)
    }
}

impl Neg for Field {
    type Output = Self;

    #[inline]
    fn neg(self) -> Self {
        Self::ZERO - self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigUint;
    use proptest::prelude::*;

    fn modulus() -> BigUint {
        (BigUint::from(1_u8) << 255) - 19_u8
    }

    /// The value of digits, however large they are.
    fn value(number: Field) -> BigUint {
        number.0.iter().rev().fold(BigUint::ZERO, |value, digit| (value << BITS) + *digit)
    }

    /// Asserts that the number is settled and that its words are those of its value.
    fn checked(number: Field) -> BigUint {
        let [low, others @ .., top] = number.0;
        assert!(low < (1 << BITS) + (1 << 13) && top <= TOP, "{number:?}");
        assert!(others.iter().all(|digit| *digit <= LOW), "{number:?}");
        let [a, b, c, d] = number.to_words();
        let least = [d, c, b, a].iter().fold(BigUint::ZERO, |value, word| (value << 64) + *word);
        assert_eq!(least, value(number) % modulus());
        least
    }

    /// Words with many bits alike, so that carries run far, and any words.
    fn words() -> impl Strategy<Value = [u64; 4]> {
        let word = prop_oneof![Just(0), Just(u64::MAX), Just(u64::MAX - 18), any::<u64>()];
        [word.clone(), word.clone(), word.clone(), word]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn arithmetic_is_that_of_whole_numbers(one in words(), other in words()) {
            let (one, other) = (Field::from_words(one), Field::from_words(other));
            let (a, b, p) = (checked(one), checked(other), modulus());
            prop_assert_eq!(value(one + other) % &p, (&a + &b) % &p);
            prop_assert_eq!(checked(one - other), (&a + &p - &b) % &p);
            prop_assert_eq!(checked(-one), (&p - &a) % &p);
            prop_assert_eq!(checked(one * other), &a * &b % &p);
            // Sums where they are allowed: multiplied, and taken away.
            let (sum, sum_of_values) = (one + other, &a + &b);
            prop_assert_eq!(checked(sum * sum), &sum_of_values * &sum_of_values % &p);
            prop_assert_eq!(checked(sum - sum), BigUint::ZERO);
            prop_assert_eq!(checked(one - sum), (&a + &p + &p - &sum_of_values) % &p);
        }

        #[test]
        fn inverses_and_powers_are_those_of_whole_numbers(words in words()) {
            let number = Field::from_words(words);
            let (value, p) = (checked(number), modulus());
            prop_assert_eq!(checked(number.inverted()), value.modpow(&(&p - 2_u8), &p));
            prop_assert_eq!(checked(number.power()), value.modpow(&((&p - 5_u8) / 8_u8), &p));
            prop_assert_eq!(number.is_odd(), value.bit(0));
            prop_assert_eq!(number.is_zero(), value == BigUint::ZERO);
        }
    }
}

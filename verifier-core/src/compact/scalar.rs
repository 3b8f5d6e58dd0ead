//! Numbers modulo the order of the base point, as words, the lowest first.

/// 2²⁵² + 27742317777372353535851937790883648493 (RFC 8032, section 5.1).
const ORDER: [u64; 4] = [0x5812_631a_5cf5_d3ed, 0x14de_f9de_a2f7_9cd6, 0, 1 << 60];

// Not inlined: twice each.

/// What is left of a number once the order is taken from it, if it is not below the order.
#[inline(never)]
fn less_order(number: &[u64; 4]) -> Option<[u64; 4]> {
    let mut borrow = false;
    let mut difference = [0; 4];
    for ((place, word), order) in difference.iter_mut().zip(number).zip(ORDER) {
        let (less, first) = word.overflowing_sub(order);
        let (less, second) = less.overflowing_sub(u64::from(borrow));
        (*place, borrow) = (less, first | second);
    }
    (!borrow).then_some(difference)
}

/// Whether a number is below the order.
pub(super) fn is_reduced(number: &[u64; 4]) -> bool {
    less_order(number).is_none()
}

/// A number of 512 bits modulo the order.
pub(super) fn reduced(number: &[u64; 8]) -> [u64; 4] {
    // The highest three words are below the order. Then bit by bit: twice what is left and one more
    // bit is below twice the order.
    let [lower @ .., a, b, c] = number;
    let mut left = [*a, *b, *c, 0];
    for word in lower.iter().rev() {
        for bit in (0..u64::BITS).rev() {
            let mut carry = word >> bit & 1;
            for word in &mut left {
                (*word, carry) = (*word << 1 | carry, *word >> 63);
            }
            left = less_order(&left).unwrap_or(left);
        }
    }
    left
}

/// The number of digits of a number that is below 2²⁵³.
pub(super) const DIGITS: usize = 255;
/// The number of bits of a digit.
const WIDTH: usize = 4;
/// The number of odd digits, apart from their signs.
pub(super) const ODD: usize = 1 << (WIDTH - 2);

/// Digits of a reduced number, the lowest first: 0, or an odd number from -7 to 7 with at least
/// three zeros above it.
#[inline(never)]
pub(super) fn digits(number: &[u64; 4]) -> [i8; DIGITS] {
    const ALL: u8 = 1 << WIDTH;
    let [a, b, c, d] = *number;
    let words = [a, b, c, d, 0];
    let mut digits = [0; DIGITS];
    let mut carry = 0;
    let mut at = 0;
    while at < DIGITS {
        let (word, shift) = (at / 64, at % 64);
        let [bits, ..] =
            (words[word] >> shift | words[word + 1] << 1 << (63 - shift)).to_le_bytes();
        let digit = bits % ALL + carry;
        if digit.is_multiple_of(2) {
            at += 1;
        } else {
            carry = u8::from(digit > ALL / 2);
            digits[at] = digit.cast_signed() - (ALL * carry).cast_signed();
            at += WIDTH;
        }
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::{BigInt, BigUint};
    use proptest::prelude::*;

    fn value(words: &[u64]) -> BigUint {
        words.iter().rev().fold(BigUint::ZERO, |value, word| (value << 64) + *word)
    }

    proptest! {
        #[test]
        fn a_number_is_reduced_as_whole_numbers_are(words in any::<[u64; 8]>()) {
            let number = reduced(&words);
            prop_assert_eq!(value(&number), value(&words) % value(&ORDER));
            prop_assert!(is_reduced(&number));
        }

        #[test]
        fn digits_make_their_number_and_have_zeros_between_them(words in any::<[u64; 8]>()) {
            let number = reduced(&words);
            let digits = digits(&number);
            let sum = digits.iter().rev().fold(BigInt::ZERO, |sum, digit| (sum << 1) + *digit);
            prop_assert_eq!(sum, BigInt::from(value(&number)));
            for digit in digits.iter().filter(|digit| **digit != 0) {
                prop_assert!(digit % 2 != 0 && usize::from(digit.unsigned_abs()) < 2 * ODD);
            }
            for window in digits.windows(WIDTH) {
                prop_assert!(window.iter().filter(|digit| **digit != 0).count() <= 1);
            }
        }
    }

    #[test]
    fn the_order_and_what_is_above_it_are_not_reduced() {
        let [low, rest @ ..] = ORDER;
        let with = |low| {
            let [a, b, c] = rest;
            [low, a, b, c]
        };
        assert!(is_reduced(&with(low - 1)) && is_reduced(&[0; 4]));
        for number in [ORDER, with(low + 1), [0, 0, 0, 1 << 61], [u64::MAX; 4]] {
            assert!(!is_reduced(&number), "{number:x?}");
        }
    }

    #[test]
    fn the_least_and_the_greatest_numbers_have_digits() {
        let [low, a, b, c] = ORDER;
        for number in [[0; 4], [1, 0, 0, 0], [low - 1, a, b, c], [u64::MAX, 0, u64::MAX, 0]] {
            let sum =
                digits(&number).iter().rev().fold(BigInt::ZERO, |sum, digit| (sum << 1) + *digit);
            assert_eq!(sum, BigInt::from(value(&number)));
        }
    }
}

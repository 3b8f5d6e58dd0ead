//! Text of the command line and the environment, read into types.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A value that a setting does not allow; the text completes "NAME is `…`, but must be".
#[derive(Debug, PartialEq, Eq)]
pub struct NotAllowed(pub String);

impl fmt::Display for NotAllowed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A whole number of `range`, in decimal digits and nothing else.
///
/// # Errors
/// A sign, white space, a fraction, a number outside `range`.
pub(super) fn whole_number(text: &str, range: &RangeInclusive<usize>) -> Result<usize, NotAllowed> {
    let number = digits(text).and_then(|number| usize::try_from(number).ok());
    number
        .filter(|number| range.contains(number))
        .ok_or_else(|| NotAllowed(format!("a whole number from {} to {}", range.start(), range.end())))
}

/// A span of `range`: a whole number of milliseconds, or one with the unit `ms`, `s`, `m` or `h`.
///
/// # Errors
/// A sign, white space, a fraction, another unit, a span outside `range`.
pub(super) fn duration(text: &str, range: &RangeInclusive<Duration>) -> Result<Duration, NotAllowed> {
    let unit_start = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_start);
    let milliseconds = match unit {
        "" | "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    digits(number)
        .zip(milliseconds)
        .and_then(|(number, unit)| number.checked_mul(unit))
        .map(Duration::from_millis)
        .filter(|span| range.contains(span))
        .ok_or_else(|| {
            let (from, to) = (Span(*range.start()), Span(*range.end()));
            NotAllowed(format!(
                "a whole number of milliseconds, or one with the unit ms, s, m or h, from {from} to {to}"
            ))
        })
}

/// For how long something is kept: a whole number with the unit `h` or `d`, of `range`.
///
/// # Errors
/// A sign, white space, a fraction, no unit or another one, a span outside `range`.
pub(super) fn age(text: &str, range: &RangeInclusive<Duration>) -> Result<Duration, NotAllowed> {
    let seconds = match text.as_bytes() {
        [number @ .., b'd'] => Some((number, 86_400)),
        [number @ .., b'h'] => Some((number, 3_600)),
        _ => None,
    };
    seconds
        .and_then(|(number, unit)| digits(str::from_utf8(number).ok()?)?.checked_mul(unit))
        .map(Duration::from_secs)
        .filter(|span| range.contains(span))
        .ok_or_else(|| {
            let (from, to) = (Span(*range.start()), Span(*range.end()));
            NotAllowed(format!("a whole number with the unit h or d, from {from} to {to}"))
        })
}

/// A name that PostgreSQL keeps whole: 1 to 63 bytes, no NUL.
///
/// # Errors
/// An empty name, a longer one, which PostgreSQL would refuse or cut, a NUL character.
pub(super) fn name(text: &str) -> Result<String, NotAllowed> {
    if (1..=63).contains(&text.len()) && !text.contains('\0') {
        Ok(text.to_owned())
    } else {
        Err(NotAllowed("a name of 1 to 63 bytes without a NUL character".to_owned()))
    }
}

/// One of a few words.
///
/// # Errors
/// Any other word, and the same in capitals.
pub(super) fn one_of<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, NotAllowed> {
    words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        NotAllowed(words.join(" or "))
    })
}

/// A span as a person writes it: `270s`, `1500ms`, `24h`.
#[derive(Clone, Copy, Debug)]
pub struct Span(pub Duration);

impl fmt::Display for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.0.as_millis();
        match milliseconds {
            0 => formatter.write_str("0"),
            _ if milliseconds.is_multiple_of(86_400_000) && milliseconds > 86_400_000 => {
                write!(formatter, "{}d", milliseconds / 86_400_000)
            }
            _ if milliseconds.is_multiple_of(3_600_000) => write!(formatter, "{}h", milliseconds / 3_600_000),
            _ if milliseconds.is_multiple_of(60_000) => write!(formatter, "{}m", milliseconds / 60_000),
            _ if milliseconds.is_multiple_of(1_000) => write!(formatter, "{}s", milliseconds / 1_000),
            _ => write!(formatter, "{milliseconds}ms"),
        }
    }
}

/// `str::parse` alone would accept a leading `+`.
fn digits(text: &str) -> Option<u64> {
    let all_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_digits_within_its_range() {
        let range = 1..=10_000;
        assert_eq!(whole_number("1", &range), Ok(1));
        assert_eq!(whole_number("0010000", &range), Ok(10_000));
        for text in ["", "0", "10001", "-1", "+1", " 1", "1.0", "1e3", "ten", "99999999999999999999", "１"] {
            let error = whole_number(text, &range).unwrap_err();
            assert_eq!(error.to_string(), "a whole number from 1 to 10000", "{text:?}");
        }
    }

    #[test]
    fn a_span_has_milliseconds_or_a_unit() {
        let range = Duration::ZERO..=Duration::from_secs(86_400);
        for (text, milliseconds) in
            [("0", 0), ("5000", 5_000), ("250ms", 250), ("5s", 5_000), ("2m", 120_000), ("24h", 86_400_000)]
        {
            assert_eq!(duration(text, &range), Ok(Duration::from_millis(milliseconds)), "{text:?}");
        }
        for text in
            ["", "s", "5 s", "-5s", "0.5s", "5S", "5d", "25h", "99999999999999999999", "9999999999999999h"]
        {
            assert!(duration(text, &range).is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_age_has_hours_or_days() {
        let range = Duration::from_secs(86_400)..=Duration::from_secs(864_000);
        for (text, hours) in [("1d", 24), ("24h", 24), ("10d", 240), ("0030h", 30)] {
            assert_eq!(age(text, &range), Ok(Duration::from_secs(3_600 * hours)), "{text:?}");
        }
        for text in [
            "",
            "d",
            "30",
            "-1d",
            "+1d",
            "1.5d",
            "1 d",
            "1D",
            "23h",
            "11d",
            "2w",
            "99999999999999999d",
            "１d",
        ] {
            let error = age(text, &range).unwrap_err();
            assert_eq!(error.to_string(), "a whole number with the unit h or d, from 24h to 10d", "{text:?}");
        }
    }

    #[test]
    fn a_span_is_shown_in_its_largest_whole_unit() {
        for (milliseconds, text) in [
            (0, "0"),
            (1, "1ms"),
            (1_500, "1500ms"),
            (270_000, "270s"),
            (86_400_000, "24h"),
            (172_800_000, "2d"),
        ] {
            assert_eq!(Span(Duration::from_millis(milliseconds)).to_string(), text);
        }
    }

    #[test]
    fn a_name_fits_into_63_bytes() {
        assert!(name("token_insert").is_ok());
        assert!(name(&"ü".repeat(31)).is_ok());
        for text in ["", &"x".repeat(64), &"ü".repeat(32), "a\0b"] {
            assert!(name(text).is_err(), "{text:?}");
        }
    }
}

//! The names of batches as the reader sees them.

use std::fmt;

/// A batch's name as text: 32 hexadecimal digits in lower case, grouped 8-4-4-4-12 as PostgreSQL prints a `uuid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchName(pub u128);

/// Where the groups end, counted in digits.
const GROUPS: [usize; 5] = [8, 12, 16, 20, 32];

impl BatchName {
    /// Reads exactly what [`Display`](fmt::Display) writes; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if !text.bytes().all(|byte| is_digit(byte) || byte == b'-') {
            return None;
        }
        let name = Self(u128::from_str_radix(&text.replace('-', ""), 16).ok()?);
        (name.to_string() == text).then_some(name)
    }
}

impl fmt::Display for BatchName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:032x}", self.0);
        let mut start = 0;
        for end in GROUPS {
            if start > 0 {
                formatter.write_str("-")?;
            }
            formatter.write_str(&digits[start..end])?;
            start = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back() {
        for (name, text) in [
            (0, "00000000-0000-0000-0000-000000000000"),
            (0x0123_4567_89ab_cdef_0011_2233_4455_6677, "01234567-89ab-cdef-0011-223344556677"),
            (u128::MAX, "ffffffff-ffff-ffff-ffff-ffffffffffff"),
        ] {
            assert_eq!(BatchName(name).to_string(), text);
            assert_eq!(BatchName::parse(text), Some(BatchName(name)));
        }
    }

    #[test]
    fn a_name_has_one_spelling() {
        for text in [
            "",
            "-",
            "1",
            "0123456789abcdef0011223344556677",
            "01234567-89AB-cdef-0011-223344556677",
            "01234567-89ab-cdef-0011-22334455667",
            "01234567-89ab-cdef-0011-2233445566770",
            "0123456-789ab-cdef-0011-223344556677",
            "+1234567-89ab-cdef-0011-223344556677",
            " 1234567-89ab-cdef-0011-223344556677",
            "01234567-89ab-cdef-0011-22334455667é",
        ] {
            assert_eq!(BatchName::parse(text), None, "{text}");
        }
    }
}

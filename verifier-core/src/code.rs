//! The five digits that a person types beside a recovery link.

use core::fmt;

use subtle::ConstantTimeEq;

/// A recovery code: five ASCII digits.
#[derive(Clone, Eq)]
pub struct Code([u8; Self::LENGTH]);

impl Code {
    /// The number of digits.
    pub const LENGTH: usize = 5;

    /// Reads a code from its text.
    ///
    /// # Errors
    /// Anything but five characters `0` to `9`: the empty string, `1234`, `12a45`, digits of another script.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self, InvalidCode> {
        match <[u8; Self::LENGTH]>::try_from(text.as_ref()) {
            Ok(digits) if digits.iter().all(u8::is_ascii_digit) => Ok(Self(digits)),
            _ => Err(InvalidCode),
        }
    }

    /// The digits in ASCII.
    pub const fn as_bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }
}

/// In constant time.
impl PartialEq for Code {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code(..)")
    }
}

#[cfg(feature = "zeroize")]
impl Drop for Code {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.0);
    }
}

/// A code that is not five ASCII digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidCode;

impl fmt::Display for InvalidCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a code is five digits from 0 to 9")
    }
}

impl core::error::Error for InvalidCode {}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;

    #[test]
    fn leading_zeros_are_part_of_a_code() {
        assert_eq!(Code::parse("00420").map(|code| *code.as_bytes()), Ok(*b"00420"));
    }

    #[test]
    fn anything_but_five_ascii_digits_is_refused() {
        for text in
            ["", "1234", "123456", "12a45", " 2345", "1234\n", "-1234", "+1234", "１２３４５", "١٠٦٩٢"]
        {
            assert_eq!(Code::parse(text), Err(InvalidCode), "{text:?}");
        }
    }

    #[test]
    fn debug_output_hides_the_digits() {
        assert_eq!(std::format!("{:?}", Code::parse("12345")), "Ok(Code(..))");
    }
}

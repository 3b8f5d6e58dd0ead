//! The digits that a person types beside a link.

use core::fmt;

use subtle::ConstantTimeEq;

use crate::error::VerifyError;

/// A code: five to eight ASCII digits, five for a recovery.
#[derive(Clone, Eq)]
pub struct Code {
    /// The digits, and zeros, which are no digits.
    digits: [u8; Self::LONGEST],
    length: u8,
}

impl Code {
    /// The largest number of digits.
    pub const LONGEST: usize = 8;

    /// The smallest number of digits.
    const SHORTEST: usize = 5;

    /// Reads a code from its text.
    ///
    /// # Errors
    /// Anything but five to eight characters `0` to `9`: the empty string, `1234`, `12a45`, digits
    /// of another script.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self, InvalidCode> {
        let text = text.as_ref();
        let mut digits = [0; Self::LONGEST];
        let mut length = 0;
        for (place, byte) in digits.iter_mut().zip(text) {
            if !byte.is_ascii_digit() {
                return Err(InvalidCode);
            }
            *place = *byte;
            length += 1;
        }
        if (Self::SHORTEST..=Self::LONGEST).contains(&text.len()) {
            Ok(Self { digits, length })
        } else {
            Err(InvalidCode)
        }
    }

    /// The same for the code of an action that has one of so many `digits`.
    // Not inlined: WebAssembly parses codes for two formats.
    #[inline(never)]
    pub(crate) fn of(digits: u8, text: &[u8]) -> Result<Self, VerifyError> {
        Self::parse(text)
            .ok()
            .filter(|code| code.length == digits)
            .ok_or(VerifyError::CodeMalformed { digits })
    }

    /// The number of digits.
    pub const fn digits(&self) -> u8 {
        self.length
    }

    /// The digits in ASCII.
    pub fn as_bytes(&self) -> &[u8] {
        self.digits.get(..usize::from(self.length)).unwrap_or_default()
    }

    /// The digits in ASCII, and zeros behind them.
    pub(crate) const fn padded(&self) -> &[u8; Self::LONGEST] {
        &self.digits
    }
}

/// In constant time.
impl PartialEq for Code {
    fn eq(&self, other: &Self) -> bool {
        // The zeros tell lengths apart.
        self.digits.ct_eq(&other.digits).into()
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
        zeroize::Zeroize::zeroize(&mut self.digits);
    }
}

/// A code that is not five to eight ASCII digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidCode;

impl fmt::Display for InvalidCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a code is five to eight digits from 0 to 9")
    }
}

impl core::error::Error for InvalidCode {}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;

    #[test]
    fn leading_zeros_are_part_of_a_code() {
        for text in ["00420", "004200", "0042000", "00420000"] {
            let code = Code::parse(text).unwrap();
            assert_eq!(
                (code.as_bytes(), usize::from(code.digits())),
                (text.as_bytes(), text.len())
            );
        }
        assert_ne!(Code::parse("00420"), Code::parse("004200"));
    }

    #[test]
    fn anything_but_five_to_eight_ascii_digits_is_refused() {
        for text in [
            "",
            "1234",
            "123456789",
            "12345678a",
            "12a45",
            " 2345",
            "1234\n",
            "12345\0",
            "-1234",
            "+1234",
            "１２３４５",
            "١٠٦٩٢",
        ] {
            assert_eq!(Code::parse(text), Err(InvalidCode), "{text:?}");
        }
    }

    #[test]
    fn the_code_of_an_action_has_its_number_of_digits() {
        for length in 5..=8 {
            let text = &b"12345678"[..length];
            for digits in 5..=8 {
                assert_eq!(Code::of(digits, text).is_ok(), usize::from(digits) == length);
            }
        }
    }

    #[test]
    fn debug_output_hides_the_digits() {
        assert_eq!(std::format!("{:?}", Code::parse("12345")), "Ok(Code(..))");
    }
}

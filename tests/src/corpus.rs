//! The inputs that the fuzzers kept: one file a target, one input a line.
//!
//! A fuzzer keeps each input in a file of its own, thousands of a few bytes. Here they are lines,
//! escaped where they are not printable ASCII, so that a change of a corpus can be read and takes
//! no more room than it needs.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::tools::workspace;

/// The file of a target.
pub fn file(target: &str) -> PathBuf {
    workspace().join("fuzz/corpus").join(target).with_extension("txt")
}

/// The inputs that were kept for a target.
pub fn read(target: &str) -> Result<Vec<Vec<u8>>> {
    let file = file(target);
    let text =
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let line = |(index, line)| {
        parse(line).with_context(|| format!("line {} of {} is no input", index + 1, file.display()))
    };
    text.lines().enumerate().map(line).collect()
}

/// Replaces the inputs that are kept for a target.
pub fn write(target: &str, mut inputs: Vec<Vec<u8>>) -> Result<()> {
    inputs.sort();
    inputs.dedup();
    let mut text = String::new();
    for input in inputs {
        writeln!(text, "{}", input.escape_ascii())?;
    }
    let file = file(target);
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// What `escape_ascii` made into `line`.
fn parse(line: &str) -> Result<Vec<u8>> {
    let mut input = Vec::with_capacity(line.len());
    let mut bytes = line.bytes();
    while let Some(byte) = bytes.next() {
        input.push(match byte {
            b'\\' => match bytes.next() {
                Some(b't') => b'\t',
                Some(b'r') => b'\r',
                Some(b'n') => b'\n',
                Some(quoted @ (b'\\' | b'\'' | b'"')) => quoted,
                Some(b'x') => {
                    let digits =
                        [bytes.next().unwrap_or_default(), bytes.next().unwrap_or_default()];
                    let value = |digit: u8| {
                        char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
                    };
                    let [high, low] = digits.map(value);
                    let two = high.zip(low).context("two hexadecimal digits must follow `\\x`")?;
                    two.0 << 4 | two.1
                }
                _ => bail!("an unknown escape"),
            },
            b' '..=b'~' => byte,
            _ => bail!("a character that should be escaped"),
        });
    }
    Ok(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives_its_line() {
        let input: Vec<u8> = (0..=u8::MAX).chain(*b"\\x41\\n\\").collect();
        let line = input.escape_ascii().to_string();
        assert_eq!(line.lines().count(), 1);
        assert_eq!(parse(&line).unwrap(), input);
        assert_eq!(parse("").unwrap(), b"");
    }

    #[test]
    fn a_line_that_is_no_input_is_refused() {
        for line in ["\\", "\\x4", "\\xg0", "\\q", "é", "\t", "\\x+1"] {
            assert!(parse(line).is_err(), "{line:?}");
        }
    }
}

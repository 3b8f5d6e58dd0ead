//! Secrets of a configuration: read from a file or from a variable that it names, never from the
//! configuration itself.

use std::env;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::error::Error;

/// The longest secret, in bytes. Session tokens of AWS have about a thousand,
/// but no documented limit.
const MAX_BYTES: usize = 8_192;

/// A password or a key. It is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself, which belongs in no log and no message.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Reads a secret; `name` is the setting's beginning, such as `password` of `password_file`.
    ///
    /// # Errors
    /// No source or two of them, a file that cannot be read, an empty or overlong secret, control
    /// characters in it.
    pub fn read(name: &str, file: Option<&Path>, variable: Option<&str>) -> Result<Self, Error> {
        let (text, source) = match (file, variable) {
            (Some(file), None) => {
                let text = fs::read_to_string(file).map_err(|error| {
                    let help = match error.kind() {
                        ErrorKind::NotFound => "; write it there, or name no file",
                        _ => "",
                    };
                    Error::configuration(format!(
                        "{name}_file: {} cannot be read: {error}{help}",
                        file.display()
                    ))
                })?;
                (
                    text.trim_end_matches(['\r', '\n']).to_owned(),
                    format!("the file {}", file.display()),
                )
            }
            (None, Some(variable)) if variable.starts_with("MAILROOM_") => {
                return Err(Error::configuration(format!(
                    "{name}_variable: the collector gives no variable that begins with MAILROOM_ \
                     to a sender; choose another name"
                )));
            }
            (None, Some(variable)) => {
                let text = env::var(variable).map_err(|_| {
                    Error::configuration(format!(
                        "{name}_variable: the variable {variable} is not set to a text"
                    ))
                })?;
                (text, format!("the variable {variable}"))
            }
            _ => {
                return Err(Error::configuration(format!(
                    "set either {name}_file to a file that holds the secret or {name}_variable \
                     to the name of a variable"
                )));
            }
        };
        if text.is_empty() || text.len() > MAX_BYTES || text.chars().any(char::is_control) {
            return Err(Error::configuration(format!(
                "{source} must hold one line of 1 to {MAX_BYTES} bytes without control characters"
            )));
        }
        Ok(Self(text))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_the_one_line_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        let read = |text: &[u8]| {
            fs::write(&file, text).unwrap();
            Secret::read("password", Some(&file), None)
        };
        assert_eq!(read(b"hunter2 \n").unwrap().expose(), "hunter2 ");
        assert_eq!(format!("{:?}", read(b"hunter2").unwrap()), "Secret(…)");
        for text in [&b""[..], b"\n", b"a\nb\n", b"a\0b", b"\xff", &[b'a'; MAX_BYTES + 1]] {
            let error = read(text).unwrap_err();
            assert!(
                error.is_of_configuration() && error.to_string().contains("password"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_secret_has_exactly_one_source() {
        let file = Path::new("/nonexistent/password");
        for (file, variable) in [
            (None, None),
            (Some(file), Some("PATH")),
            (Some(file), None),
            (None, Some("MAILROOM_SECRET_KEY")),
            (None, Some("NO_SUCH_VARIABLE")),
        ] {
            let error = Secret::read("password", file, variable).unwrap_err();
            assert!(error.to_string().contains("password_"), "{error}");
        }
    }
}

//! The keys that sign and verify: where they come from and how they are read.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mailroom_verifier_core::{InvalidKey, KeyRing, NoKey, SharedKey};
use zeroize::Zeroizing;

use crate::config::{KEY_FILE, SECRET_KEY, SettingError, Variables, set_variable};

/// The current key, which signs, and all that verify.
#[derive(Clone, Debug)]
pub struct Keys {
    current: SharedKey,
    ring: KeyRing<Vec<SharedKey>>,
}

impl Keys {
    /// The key that signs.
    pub fn current(&self) -> &SharedKey {
        &self.current
    }

    /// The keys of which one must have signed what is to be verified.
    pub fn ring(&self) -> &KeyRing<Vec<SharedKey>> {
        &self.ring
    }

    fn new(keys: Vec<SharedKey>) -> Result<Self, NoKey> {
        let current = keys.first().cloned().ok_or(NoKey)?;
        Ok(Self { current, ring: KeyRing::new(keys)? })
    }
}

/// Longer files are refused: a thousand keys fit.
const LONGEST_FILE: u64 = 65_536;

/// Where the keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// `MAILROOM_SECRET_KEY`, one key.
    Environment,
    /// A file: one key a line, the first one signs; blank lines and lines that begin with `#` do not count.
    File(PathBuf),
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The key in the environment is not one.
    #[error("MAILROOM_SECRET_KEY is no key: {0}")]
    Environment(InvalidKey),
    /// The file cannot be read.
    #[error("the key file {path} cannot be read: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The file is too long to be one.
    #[error(
        "the key file {path} is longer than {LONGEST_FILE} bytes; it must hold one key a line and nothing else"
    )]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// A line of the file is no key.
    #[error("line {line} of the key file {path} is no key: {reason}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it; the line itself is not shown.
        reason: InvalidKey,
    },
    /// The file has no key.
    #[error("the key file {path} has no key; write one with `mailroom keygen`")]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl KeySource {
    /// Where flags and variables say that the keys are. A flag beats both variables.
    ///
    /// # Errors
    /// No key is given, or both variables are set.
    pub fn find(key_file: Option<&OsString>, variables: Variables<'_>) -> Result<Self, SettingError> {
        if let Some(path) = key_file {
            return Ok(Self::File(path.into()));
        }
        match (set_variable(variables, SECRET_KEY), set_variable(variables, KEY_FILE)) {
            (Some(_), Some(_)) => Err(SettingError::TwoKeySources),
            (Some(_), None) => Ok(Self::Environment),
            (None, Some(path)) => Ok(Self::File(path.into())),
            (None, None) => Err(SettingError::Missing {
                name: SECRET_KEY,
                wanted: "set it to a key of 64 hexadecimal characters, or MAILROOM_KEY_FILE to a file that holds one; \
                         `mailroom keygen` makes one",
            }),
        }
    }

    /// Reads the keys. What was read of a file is overwritten in memory afterwards.
    ///
    /// # Errors
    /// A file that cannot be read or holds no key, a text that is no key. None of them shows a key.
    pub fn load(&self, variables: Variables<'_>) -> Result<Keys, KeyError> {
        match self {
            Self::Environment => {
                let text = Zeroizing::new(
                    variables(SECRET_KEY).map(OsString::into_encoded_bytes).unwrap_or_default(),
                );
                let key = SharedKey::from_hex(text.as_slice()).map_err(KeyError::Environment)?;
                Ok(Keys { current: key.clone(), ring: ring_of(key) })
            }
            Self::File(path) => load_file(path),
        }
    }
}

fn ring_of(key: SharedKey) -> KeyRing<Vec<SharedKey>> {
    KeyRing::new(vec![key]).expect("a ring of one key is not empty")
}

fn load_file(path: &Path) -> Result<Keys, KeyError> {
    let content = read_file(path)?;
    let mut keys = Vec::new();
    for (index, line) in content.split(|byte| *byte == b'\n').enumerate() {
        let text = line.trim_ascii();
        if text.is_empty() || text.starts_with(b"#") {
            continue;
        }
        let key = SharedKey::from_hex(text).map_err(|reason| KeyError::Line {
            path: path.to_owned(),
            line: index + 1,
            reason,
        })?;
        keys.push(key);
    }
    Keys::new(keys).map_err(|NoKey| KeyError::Empty { path: path.to_owned() })
}

fn read_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let unreadable = |source| KeyError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    // Refusing, as ssh does, would stop containers whose secrets are mounted with fixed modes.
    if metadata.is_file() && metadata.permissions().mode() & 0o007 != 0 {
        tracing::warn!(
            "the key file {} can be read by every user of this machine; `chmod o= {0}` keeps it private",
            path.display()
        );
    }
    // Sized beforehand: growing would leave copies of the keys in freed memory.
    let capacity = usize::try_from(LONGEST_FILE + 1).expect("64 KiB fit into memory");
    let mut content = Zeroizing::new(Vec::with_capacity(capacity));
    file.take(LONGEST_FILE + 1).read_to_end(&mut content).map_err(unreadable)?;
    if content.len() == capacity { Err(KeyError::TooLong { path: path.to_owned() }) } else { Ok(content) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const FIRST: &str = "f0862c4759ca9b15561201f52e295c592b2a985d6459589ae61d3e68eb137814";
    const SECOND: &str = "00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff";

    fn load(content: &str) -> Result<Keys, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        fs::write(&path, content).unwrap();
        let shown = path.display().to_string();
        KeySource::File(path).load(&|_| None).map_err(|error| error.to_string().replace(&shown, "FILE"))
    }

    #[test]
    fn the_first_line_signs_and_the_others_follow() {
        let keys = load(&format!("# made in May\n\n  {FIRST}\r\n#{SECOND}\n{SECOND}")).unwrap();
        let expected = [FIRST, SECOND].map(|hex| SharedKey::from_hex(hex).unwrap().mac().to_bytes());
        let loaded: Vec<_> = keys.ring().keys().iter().map(|key| key.mac().to_bytes()).collect();
        assert_eq!(loaded, expected);
    }

    #[test]
    fn a_bad_line_is_named_and_not_shown() {
        for (content, error) in [
            ("", "the key file FILE has no key; write one with `mailroom keygen`".to_owned()),
            ("# nothing\n\n", "the key file FILE has no key; write one with `mailroom keygen`".to_owned()),
            (
                &format!("{FIRST}\n\n{FIRST}0"),
                "line 3 of the key file FILE is no key: a shared key is 64 hexadecimal characters, not 65"
                    .to_owned(),
            ),
            (
                &format!("{}g", &FIRST[1..]),
                "line 1 of the key file FILE is no key: a shared key consists of hexadecimal characters only"
                    .to_owned(),
            ),
            (
                &"#".repeat(65_537),
                "the key file FILE is longer than 65536 bytes; it must hold one key a line and nothing else"
                    .to_owned(),
            ),
        ] {
            assert_eq!(load(content).unwrap_err(), error);
        }
    }

    #[test]
    fn a_key_comes_from_one_place() {
        let both = |name: &str| [SECRET_KEY, KEY_FILE].contains(&name).then(|| "x".into());
        assert!(matches!(KeySource::find(None, &both), Err(SettingError::TwoKeySources)));
        let file = OsString::from("keys");
        assert_eq!(KeySource::find(Some(&file), &both).unwrap(), KeySource::File("keys".into()));
        assert!(matches!(KeySource::find(None, &|_| None), Err(SettingError::Missing { .. })));
    }

    #[test]
    fn a_key_of_the_environment_is_taken_as_it_is() {
        let load = |text: String| KeySource::Environment.load(&move |_| Some(text.clone().into()));
        assert!(load(FIRST.to_owned()).is_ok());
        let error = load(format!("{FIRST}\n")).unwrap_err().to_string();
        assert_eq!(error, "MAILROOM_SECRET_KEY is no key: a shared key is 64 hexadecimal characters, not 65");
    }
}

//! Where keys come from, and how they are read.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mailroom_verifier_core::{InvalidKey, PrivateKey, PublicKey, SharedKey, Version};
use zeroize::Zeroizing;

use super::{Key, Keys, Wanted};
use crate::config::{
    KEY_FILE, PUBLIC_KEY, SECRET_KEY, SIGNING_KEY, SettingError, Variables, looks_like_a_key, set_variable,
};

/// Longer files are refused: a thousand keys fit.
const LONGEST_FILE: u64 = 65_536;

/// What keys are needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Signing a format.
    Signing(Version),
    /// Verifying whatever the keys can verify.
    Verifying,
}

impl Use {
    /// The variables whose keys are good for it.
    const fn variables(self) -> &'static [&'static str] {
        match self {
            Self::Signing(Version::V3) => &[SIGNING_KEY],
            Self::Signing(_) => &[SECRET_KEY],
            Self::Verifying => &[SECRET_KEY, SIGNING_KEY, PUBLIC_KEY],
        }
    }

    const fn missing(self) -> SettingError {
        match self {
            Self::Signing(Version::V3) => SettingError::Missing {
                name: SIGNING_KEY,
                wanted: "v3 is signed with a private key: set it to one, `mrsk_…`, or MAILROOM_KEY_FILE to a file that \
                         begins with one; `mailroom keygen --token-format v3` makes one",
            },
            Self::Signing(_) => SettingError::Missing {
                name: SECRET_KEY,
                wanted: "set it to a key of 64 hexadecimal characters, or MAILROOM_KEY_FILE to a file that holds one; \
                         `mailroom keygen` makes one",
            },
            Self::Verifying => SettingError::Missing {
                name: SECRET_KEY,
                wanted: "set it to a key of 64 hexadecimal characters, or for v3 MAILROOM_PUBLIC_KEY to a public key, \
                         `mrpk_…`, or MAILROOM_KEY_FILE to a file that holds keys",
            },
        }
    }
}

/// Where the keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// Variables with a key each.
    Environment {
        /// The first one.
        first: &'static str,
        /// The others.
        others: Vec<&'static str>,
    },
    /// A file: one key a line, the first one signs; blank lines and lines that begin with `#` do not count.
    File(PathBuf),
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The key in the environment is not one.
    #[error("{name} is no {kind}: {reason}")]
    Environment {
        /// The variable.
        name: &'static str,
        /// The kind of key that it holds.
        kind: &'static str,
        /// What is wrong with it; the value itself is not shown.
        reason: InvalidKey,
    },
    /// The first key does not sign this format.
    #[error("{origin} is {kind}, but {format}")]
    Kind {
        /// Where the key is written.
        origin: String,
        /// What it is.
        kind: &'static str,
        /// What it should be.
        format: Wanted,
    },
    /// The file cannot be read.
    #[error("the key file {path} cannot be read: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// There is no such file, and its name may be the key itself.
    #[error(
        "what MAILROOM_KEY_FILE or --key-file says looks like a key and is no file; it must be the path of a file that holds \
         the key"
    )]
    KeyForPath,
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
    /// Where flags and variables say that the keys for this use are. A flag beats all variables.
    ///
    /// # Errors
    /// No key is given, or a key and a key file.
    pub fn find(
        key_file: Option<&OsString>,
        needed: Use,
        variables: Variables<'_>,
    ) -> Result<Self, SettingError> {
        if let Some(path) = key_file {
            return Ok(Self::File(path.into()));
        }
        let is_set = |name: &&'static str| set_variable(variables, name).is_some();
        let mut set = needed.variables().iter().copied().filter(is_set);
        match (set.next(), set_variable(variables, KEY_FILE)) {
            (Some(variable), Some(_)) => Err(SettingError::TwoKeySources { variable }),
            (Some(first), None) => Ok(Self::Environment { first, others: set.collect() }),
            (None, Some(path)) => Ok(Self::File(path.into())),
            (None, None) => Err(needed.missing()),
        }
    }

    /// Reads the keys. What was read of a file is overwritten in memory afterwards.
    ///
    /// # Errors
    /// A file that cannot be read or holds no key, a text that is no key. None of them shows a key.
    pub fn load(&self, variables: Variables<'_>) -> Result<Keys, KeyError> {
        match self {
            Self::Environment { first, others } => Ok(Keys {
                first: load_variable(first, variables)?,
                others: others.iter().map(|name| load_variable(name, variables)).collect::<Result<_, _>>()?,
                origin: (*first).to_owned(),
            }),
            Self::File(path) => load_file(path),
        }
    }
}

/// The key of a variable, which is of the kind that the variable is for.
fn load_variable(name: &'static str, variables: Variables<'_>) -> Result<Key, KeyError> {
    let text = Zeroizing::new(variables(name).map(OsString::into_encoded_bytes).unwrap_or_default());
    let (kind, key) = match name {
        SIGNING_KEY => ("private key", PrivateKey::parse(text.as_slice()).map(Key::Private)),
        PUBLIC_KEY => ("public key", PublicKey::parse(text.as_slice()).map(Key::Public)),
        _ => ("shared key", SharedKey::from_hex(text.as_slice()).map(Key::Shared)),
    };
    key.map_err(|reason| KeyError::Environment { name, kind, reason })
}

fn load_file(path: &Path) -> Result<Keys, KeyError> {
    let (content, is_exposed) = read_file(path)?;
    let mut keys = Vec::new();
    let mut first_line = 0;
    for (index, line) in content.split(|byte| *byte == b'\n').enumerate() {
        let text = line.trim_ascii();
        if text.is_empty() || text.starts_with(b"#") {
            continue;
        }
        let line = index + 1;
        let invalid = |reason| KeyError::Line { path: path.to_owned(), line, reason };
        if keys.is_empty() {
            first_line = line;
        }
        keys.push(Key::parse(text).map_err(invalid)?);
    }
    // Refusing, as ssh does, would stop containers whose secrets are mounted with fixed modes.
    if is_exposed && keys.iter().any(Key::is_secret) {
        tracing::warn!(
            event = "key_file_exposed",
            "the key file {} can be read by every user of this machine; `chmod o= {0}` keeps it private",
            path.display()
        );
    }
    let mut keys = keys.into_iter();
    let first = keys.next().ok_or_else(|| KeyError::Empty { path: path.to_owned() })?;
    let origin = format!("line {first_line} of the key file {}", path.display());
    Ok(Keys { first, others: keys.collect(), origin })
}

/// What a file holds, and whether every user of this machine can read it.
fn read_file(path: &Path) -> Result<(Zeroizing<Vec<u8>>, bool), KeyError> {
    let unreadable = |source| match path.to_str() {
        Some(text) if looks_like_a_key(text) => KeyError::KeyForPath,
        _ => KeyError::Unreadable { path: path.to_owned(), source },
    };
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let is_exposed = metadata.is_file() && metadata.permissions().mode() & 0o007 != 0;
    // Sized beforehand: growing would leave copies of the keys in freed memory.
    let capacity = usize::try_from(LONGEST_FILE + 1).expect("64 KiB fit into memory");
    let mut content = Zeroizing::new(Vec::with_capacity(capacity));
    file.take(LONGEST_FILE + 1).read_to_end(&mut content).map_err(unreadable)?;
    if content.len() == capacity {
        return Err(KeyError::TooLong { path: path.to_owned() });
    }
    Ok((content, is_exposed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const FIRST: &str = "f0862c4759ca9b15561201f52e295c592b2a985d6459589ae61d3e68eb137814";
    const PRIVATE: &str = "mrsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
    const PUBLIC: &str = "mrpk_A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg";
    const SECOND: &str = "00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff";

    fn load(content: &str) -> Result<Keys, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        fs::write(&path, content).unwrap();
        let shown = path.display().to_string();
        KeySource::File(path).load(&|_| None).map_err(|error| error.to_string().replace(&shown, "FILE"))
    }

    #[test]
    fn the_first_line_signs_and_the_others_follow_whatever_their_kind() {
        let keys = load(&format!("# made in May\n\n  {FIRST}\r\n#{SECOND}\n{PRIVATE}\n{SECOND}\n{PUBLIC}\n"))
            .unwrap();
        assert_eq!(keys.count(), 4);
        let shared = |hex: &str| SharedKey::from_hex(hex).unwrap().to_prepared();
        let prepared = |key: &Key| match key {
            Key::Shared(key) => Some(key.to_prepared()),
            _ => None,
        };
        assert_eq!(prepared(&keys.first), Some(shared(FIRST)));
        assert_eq!(keys.others.iter().filter_map(prepared).collect::<Vec<_>>(), [shared(SECOND)]);
        assert!(matches!(keys.others[..], [Key::Private(_), Key::Shared(_), Key::Public(_)]));
        let error = keys.signer(Version::V3).unwrap_err().to_string();
        assert!(error.starts_with("line 3 of the key file "), "{error}");
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
        let signing = |format| Use::Signing(format);
        let both = |name: &str| [SECRET_KEY, KEY_FILE].contains(&name).then(|| "x".into());
        let find = |needed| KeySource::find(None, needed, &both);
        for needed in [signing(Version::V1), signing(Version::V2), Use::Verifying] {
            assert!(matches!(find(needed), Err(SettingError::TwoKeySources { variable: SECRET_KEY })));
        }
        assert_eq!(
            find(signing(Version::V3)).unwrap(),
            KeySource::File("x".into()),
            "no shared key signs v3"
        );
        let file = OsString::from("keys");
        let found = KeySource::find(Some(&file), Use::Verifying, &both);
        assert_eq!(found.unwrap(), KeySource::File("keys".into()));
    }

    #[test]
    fn a_use_takes_the_variables_that_are_good_for_it() {
        let all = |name: &str| (name != KEY_FILE).then(|| "x".into());
        for (needed, names) in [
            (Use::Signing(Version::V1), &[SECRET_KEY][..]),
            (Use::Signing(Version::V2), &[SECRET_KEY]),
            (Use::Signing(Version::V3), &[SIGNING_KEY]),
            (Use::Verifying, &[SECRET_KEY, SIGNING_KEY, PUBLIC_KEY]),
        ] {
            assert_eq!(
                KeySource::find(None, needed, &all).unwrap(),
                KeySource::Environment { first: names[0], others: names[1..].to_vec() }
            );
            let Err(SettingError::Missing { name, .. }) = KeySource::find(None, needed, &|_| None) else {
                panic!("{needed:?} needs a key")
            };
            assert_eq!(name, names[0]);
        }
    }

    #[test]
    fn a_key_of_the_environment_is_taken_as_it_is_and_is_of_the_kind_of_its_variable() {
        let load = |name: &'static str, text: &str| {
            let text = OsString::from(text);
            let source = KeySource::Environment { first: name, others: Vec::new() };
            source.load(&move |_| Some(text.clone())).map_err(|error| error.to_string())
        };
        for (name, key) in [(SECRET_KEY, FIRST), (SIGNING_KEY, PRIVATE), (PUBLIC_KEY, PUBLIC)] {
            assert_eq!(load(name, key).unwrap().count(), 1);
        }
        assert_eq!(
            load(SECRET_KEY, &format!("{FIRST}\n")).unwrap_err(),
            "MAILROOM_SECRET_KEY is no shared key: a shared key is 64 hexadecimal characters, not 65"
        );
        for (name, key, kind) in [
            (SECRET_KEY, PRIVATE, "shared"),
            (SECRET_KEY, PUBLIC, "shared"),
            (SIGNING_KEY, PUBLIC, "private"),
            (SIGNING_KEY, FIRST, "private"),
            (PUBLIC_KEY, PRIVATE, "public"),
        ] {
            assert_eq!(
                load(name, key).unwrap_err(),
                format!(
                    "{name} is no {kind} key: a private key begins with `mrsk_`, a public key with `mrpk_`, and a shared \
                     key is 64 hexadecimal characters"
                )
            );
        }
    }
}

//! Where keys come from, and how they are read.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mailroom_verifier_core::{PrivateKey, PublicKey, SharedKey, Version};
use zeroize::Zeroizing;

use super::{Key, KeyError, Keys, looks_like_a_key};

/// The shared key. Keys have no flags: every user of the machine can read arguments.
const SECRET_KEY: &str = "MAILROOM_SECRET_KEY";

/// The private key that signs v3.
const SIGNING_KEY: &str = "MAILROOM_SIGNING_KEY";

/// A public key that verifies v3.
const PUBLIC_KEY: &str = "MAILROOM_PUBLIC_KEY";

/// The path of a key file.
const KEY_FILE: &str = "MAILROOM_KEY_FILE";

/// Longer files are refused: a thousand keys fit.
const LONGEST_FILE: u64 = 65_536;

/// Looks up an environment variable that is not empty; tests give their own, because a process has only one environment.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// What keys are needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse {
    /// Signing a format.
    Signing(Version),
    /// Verifying whatever the keys can verify.
    Verifying,
}

impl KeyUse {
    /// The variables whose keys can be used for it, and what to set if none is.
    const fn variables(self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::Signing(Version::V3) => (
                &[SIGNING_KEY],
                "v3 is signed with a private key: set it to one, `mrsk_…`, or MAILROOM_KEY_FILE to a file that \
                 begins with one; `mailroom keygen --token-format v3` makes one",
            ),
            Self::Signing(_) => (
                &[SECRET_KEY],
                "set it to a key of 64 hexadecimal characters, or MAILROOM_KEY_FILE to a file that holds one; \
                 `mailroom keygen` makes one",
            ),
            Self::Verifying => (
                &[SECRET_KEY, SIGNING_KEY, PUBLIC_KEY],
                "set it to a key of 64 hexadecimal characters, or for v3 MAILROOM_PUBLIC_KEY to a public key, \
                 `mrpk_…`, or MAILROOM_KEY_FILE to a file that holds keys",
            ),
        }
    }
}

/// Where the keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// Variables with a key each, at least one.
    Environment(Vec<&'static str>),
    /// A file: one key a line, the first one signs; blank lines and lines that begin with `#` do not count.
    File(PathBuf),
}

impl KeySource {
    /// Finds the keys for this use. A flag beats all variables.
    ///
    /// # Errors
    /// No key is given, or a key and a key file.
    pub fn find(flag: Option<&Path>, needed: KeyUse, variables: Variables<'_>) -> Result<Self, KeyError> {
        if let Some(path) = flag {
            return Ok(Self::File(path.into()));
        }
        let (names, advice) = needed.variables();
        let set: Vec<_> = names.iter().copied().filter(|name| variables(name).is_some()).collect();
        match (set.first(), variables(KEY_FILE)) {
            (Some(name), Some(_)) => Err(KeyError(format!(
                "{name} and {KEY_FILE} are both set; unset one, so that it is clear which keys are meant"
            ))),
            (Some(_), None) => Ok(Self::Environment(set)),
            (None, Some(path)) => Ok(Self::File(path.into())),
            (None, None) => Err(KeyError(format!("{} is not set; {advice}", names[0]))),
        }
    }

    /// Reads the keys. What was read of a file is overwritten in memory afterwards.
    ///
    /// # Errors
    /// A file that cannot be read or holds no key, a text that is no key. None of them shows a key.
    pub fn load(&self, variables: Variables<'_>) -> Result<Keys, KeyError> {
        match self {
            Self::Environment(names) => Ok(Keys {
                keys: names.iter().map(|name| load_variable(name, variables)).collect::<Result<_, _>>()?,
                origin: names[0].to_owned(),
            }),
            Self::File(path) => load_file(path),
        }
    }
}

/// The key of a variable, which is of the kind that the variable is for.
fn load_variable(name: &'static str, variables: Variables<'_>) -> Result<Key, KeyError> {
    let text = Zeroizing::new(variables(name).map(OsString::into_encoded_bytes).unwrap_or_default());
    let (kind, key) = match name {
        SIGNING_KEY => ("private", PrivateKey::parse(text.as_slice()).map(Key::Private)),
        PUBLIC_KEY => ("public", PublicKey::parse(text.as_slice()).map(Key::Public)),
        _ => ("shared", SharedKey::from_hex(text.as_slice()).map(Key::Shared)),
    };
    key.map_err(|reason| KeyError(format!("{name} is no {kind} key: {reason}")))
}

fn load_file(path: &Path) -> Result<Keys, KeyError> {
    let file = format!("the key file {}", path.display());
    let (content, is_exposed) = read_file(path).map_err(|error| match path.to_str() {
        Some(text) if looks_like_a_key(text) => KeyError(
            "what MAILROOM_KEY_FILE or --key-file says looks like a key and is no file; it must be the path of a file \
             that holds the key"
                .to_owned(),
        ),
        _ => KeyError(format!("{file} cannot be read: {error}")),
    })?;
    if content.len() as u64 > LONGEST_FILE {
        let advice = "it must hold one key a line and nothing else";
        return Err(KeyError(format!("{file} is longer than {LONGEST_FILE} bytes; {advice}")));
    }
    let (mut keys, mut first_line) = (Vec::new(), 0);
    for (line, text) in (1..).zip(content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii)) {
        if text.is_empty() || text.starts_with(b"#") {
            continue;
        }
        if keys.is_empty() {
            first_line = line;
        }
        keys.push(
            Key::parse(text)
                .map_err(|reason| KeyError(format!("line {line} of {file} is no key: {reason}")))?,
        );
    }
    if keys.is_empty() {
        return Err(KeyError(format!("{file} has no key; write one with `mailroom keygen`")));
    }
    // Refusing, as ssh does, would stop containers whose secrets are mounted with fixed modes.
    if is_exposed && keys.iter().any(|key| !matches!(key, Key::Public(_))) {
        tracing::warn!(
            event = "key_file_exposed",
            "{file} can be read by every user of this machine; `chmod o= {}` keeps it private",
            path.display()
        );
    }
    Ok(Keys { keys, origin: format!("line {first_line} of {file}") })
}

/// What a file holds, up to a byte more than may be, and whether every user of this machine can read it.
fn read_file(path: &Path) -> io::Result<(Zeroizing<Vec<u8>>, bool)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let is_exposed = metadata.is_file() && metadata.permissions().mode() & 0o007 != 0;
    // Sized beforehand: growing would leave copies of the keys in freed memory.
    let capacity = usize::try_from(LONGEST_FILE + 1).expect("64 KiB fit into memory");
    let mut content = Zeroizing::new(Vec::with_capacity(capacity));
    file.take(LONGEST_FILE + 1).read_to_end(&mut content)?;
    Ok((content, is_exposed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const FIRST: &str = "f0862c4759ca9b15561201f52e295c592b2a985d6459589ae61d3e68eb137814";
    const SECOND: &str = "00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff";
    const PRIVATE: &str = "mrsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
    const PUBLIC: &str = "mrpk_A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg";

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
        let prepared = |hex: &str| SharedKey::from_hex(hex).unwrap().to_prepared();
        let [Key::Shared(first), Key::Private(_), Key::Shared(second), Key::Public(_)] = &*keys.keys else {
            panic!("{keys:?}")
        };
        assert_eq!((first.to_prepared(), second.to_prepared()), (prepared(FIRST), prepared(SECOND)));
        assert!(keys.origin.starts_with("line 3 of the key file "), "{}", keys.origin);
    }

    #[test]
    fn a_bad_line_is_named_and_not_shown() {
        let empty = "the key file FILE has no key; write one with `mailroom keygen`";
        for (content, error) in [
            ("", empty),
            ("# nothing\n\n", empty),
            (
                &format!("{FIRST}\n\n{FIRST}0"),
                "line 3 of the key file FILE is no key: a shared key is 64 hexadecimal characters, not 65",
            ),
            (
                &format!("{}g", &FIRST[1..]),
                "line 1 of the key file FILE is no key: a shared key consists of hexadecimal characters only",
            ),
            (
                &"#".repeat(65_537),
                "the key file FILE is longer than 65536 bytes; it must hold one key a line and nothing else",
            ),
        ] {
            assert_eq!(load(content).unwrap_err(), error);
        }
    }

    #[test]
    fn a_use_takes_the_variables_that_are_good_for_it_or_a_file() {
        let keys = |name: &str| (name != KEY_FILE).then(|| "x".into());
        let both = |name: &str| [SECRET_KEY, KEY_FILE].contains(&name).then(|| "x".into());
        for (needed, names) in [
            (KeyUse::Signing(Version::V1), &[SECRET_KEY][..]),
            (KeyUse::Signing(Version::V2), &[SECRET_KEY]),
            (KeyUse::Signing(Version::V3), &[SIGNING_KEY]),
            (KeyUse::Verifying, &[SECRET_KEY, SIGNING_KEY, PUBLIC_KEY]),
        ] {
            let find =
                |variables| KeySource::find(None, needed, variables).map_err(|error| error.to_string());
            assert_eq!(find(&keys), Ok(KeySource::Environment(names.to_vec())));
            let error = find(&|_| None).unwrap_err();
            assert!(error.starts_with(&format!("{} is not set; ", names[0])), "{error}");
            if names[0] == SECRET_KEY {
                let error = find(&both).unwrap_err();
                assert!(
                    error.starts_with("MAILROOM_SECRET_KEY and MAILROOM_KEY_FILE are both set; "),
                    "{error}"
                );
            } else {
                assert_eq!(find(&both), Ok(KeySource::File("x".into())), "no shared key signs v3");
            }
            let found = KeySource::find(Some(Path::new("keys")), needed, &both);
            assert_eq!(found, Ok(KeySource::File("keys".into())), "a flag beats all variables");
        }
    }

    #[test]
    fn a_key_of_the_environment_is_taken_as_it_is_and_is_of_the_kind_of_its_variable() {
        let load = |name: &'static str, text: &str| {
            let text = OsString::from(text);
            let keys = KeySource::Environment(vec![name]).load(&move |_| Some(text.clone()));
            keys.map_err(|error| error.to_string())
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
            let error = load(name, key).unwrap_err();
            let start =
                format!("{name} is no {kind} key: a private key begins with `mrsk_`, a public key with ");
            assert!(error.starts_with(&start) && !error.contains(key), "{error}");
        }
    }
}

//! The keys that sign and verify: their kinds, where they come from,
//! and which of them signs which format.
//!
//! None is ever shown: errors name the variable, or the file and the line.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mailroom_redact::looks_like_a_key;
use mailroom_verifier_core::VerifyingKey::{self, Public, Shared};
use mailroom_verifier_core::{KeyRing, PrivateKey, PublicKey, SharedKey, Signer, Version};
use zeroize::Zeroizing;

use crate::environment::variable;

// Keys have no flags: every user of the machine can read arguments.
const SECRET_KEY: &str = "MAILROOM_SECRET_KEY";
const SIGNING_KEY: &str = "MAILROOM_SIGNING_KEY";
const PUBLIC_KEY: &str = "MAILROOM_PUBLIC_KEY";
const KEY_FILE: &str = "MAILROOM_KEY_FILE";

/// What is wrong where the format is the database's choice and the key is a private one.
const NEEDS_V3: &str = "a private key signs v3 alone, which no installation has as its default; \
                        set MAILROOM_TOKEN_FORMAT=v3, or give a shared key of 64 hexadecimal \
                        characters";

/// Longer files are refused: a thousand keys fit.
const MAX_FILE: u64 = 65_536;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct KeyError(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyUse {
    /// Signing this format; v1 or v2, which have the same key, where the database says which.
    Signing(Option<Version>),
    Verifying,
}

impl KeyUse {
    /// The variables whose keys can be used for it, and the advice if none of them is set.
    const fn variables(self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::Signing(Some(format)) if format.is_public() => (
                &[SIGNING_KEY],
                "v3 is signed with a private key: set it to one, `mrsk_…`, or MAILROOM_KEY_FILE to \
                 a file that begins with one; `mailroom keygen --token-format v3` makes one",
            ),
            Self::Signing(_) => (
                &[SECRET_KEY],
                "set it to a key of 64 hexadecimal characters, or MAILROOM_KEY_FILE to a file that \
                 holds one; `mailroom keygen` makes one",
            ),
            Self::Verifying => (
                &[SECRET_KEY, SIGNING_KEY, PUBLIC_KEY],
                "set it to a key of 64 hexadecimal characters, or for v3 MAILROOM_PUBLIC_KEY to a \
                 public key, `mrpk_…`, or MAILROOM_KEY_FILE to a file that holds keys",
            ),
        }
    }
}

pub(crate) enum KeySource {
    /// Variables with a key each, at least one.
    Environment(Vec<&'static str>),
    /// A file: one key a line, the first one signs;
    /// blank lines and lines that begin with `#` do not count.
    File(PathBuf),
}

impl KeySource {
    /// Finds the keys for this use. A flag beats all variables; a key and a key file are an error.
    pub(crate) fn find(flag: Option<&Path>, needed: KeyUse) -> Result<Self, KeyError> {
        if let Some(path) = flag {
            return Ok(Self::File(path.into()));
        }
        let (names, advice) = needed.variables();
        let set: Vec<_> = names.iter().copied().filter(|name| variable(name).is_some()).collect();
        match (set.first(), variable(KEY_FILE)) {
            (Some(name), Some(_)) => Err(KeyError(format!(
                "{name} and {KEY_FILE} are both set; unset one, \
                 so that it is clear which keys are meant"
            ))),
            (Some(_), None) => Ok(Self::Environment(set)),
            (None, Some(path)) => Ok(Self::File(path.into())),
            (None, None) if needed == KeyUse::Signing(None) && variable(SIGNING_KEY).is_some() => {
                Err(KeyError(format!("{SIGNING_KEY} is set, and {NEEDS_V3}")))
            }
            (None, None) => Err(KeyError(format!("{} is not set; {advice}", names[0]))),
        }
    }

    /// Whether every user of this machine can read a key file.
    pub(crate) fn is_exposed(path: &Path) -> bool {
        read_file(path).is_ok_and(|(_, is_exposed)| is_exposed)
    }

    /// Reads the keys, at least one. What was read of a file is overwritten in memory afterwards.
    pub(crate) fn load(&self) -> Result<Keys, KeyError> {
        match self {
            Self::Environment(names) => Ok(Keys {
                keys: names.iter().map(|name| load_variable(name)).collect::<Result<_, _>>()?,
                origin: names[0].to_owned(),
            }),
            Self::File(path) => load_file(path),
        }
    }
}

/// The keys of a process: the first one signs, all of them verify.
pub(crate) struct Keys {
    /// At least one.
    keys: Vec<Key>,
    /// Where the first key is written, for those who have to change it.
    origin: String,
}

impl Keys {
    pub(crate) fn count(&self) -> usize {
        self.keys.len()
    }

    /// The first key, as the signer of a format, if it is of the kind that signs that.
    pub(crate) fn signer(&self, format: Version) -> Result<Signer, KeyError> {
        let kind = match (format, &self.keys[0]) {
            (Version::V1, Key::Verifying(Shared(key))) => return Ok(Signer::V1(key.clone())),
            (Version::V2, Key::Verifying(Shared(key))) => return Ok(Signer::V2(key.clone())),
            (Version::V3, Key::Private(key)) => return Ok(Signer::V3(key.clone())),
            (_, Key::Verifying(Shared(_))) => "shared",
            (_, Key::Private(_)) => "private",
            (_, Key::Verifying(_)) => "public",
        };
        let needed = if format.is_public() {
            "a private key, `mrsk_…`"
        } else {
            "a shared key of 64 hexadecimal characters"
        };
        Err(KeyError(format!(
            "{} is a {kind} key, but {format} is signed with {needed}",
            self.origin
        )))
    }

    /// The first key, if it is of the kind that signs `format` or, without one, v1 and v2.
    pub(crate) fn signing_key(&self, format: Option<Version>) -> Result<SigningKey, KeyError> {
        match (format, &self.keys[0]) {
            (None, Key::Private(_)) => {
                return Err(KeyError(format!("{} is a private key, and {NEEDS_V3}", self.origin)));
            }
            (None, _) => {}
            (Some(format), _) => drop(self.signer(format)?),
        }
        Ok(match &self.keys[0] {
            Key::Private(key) => SigningKey::Private(Signer::V3(key.clone())),
            Key::Verifying(_) => {
                SigningKey::Shared { v1: self.signer(Version::V1)?, v2: self.signer(Version::V2)? }
            }
        })
    }

    /// The keys that verify: one of them must have signed.
    pub(crate) fn ring(&self) -> KeyRing<Vec<VerifyingKey>> {
        let verifying = self.keys.iter().map(|key| match key {
            Key::Verifying(key) => key.clone(),
            Key::Private(key) => key.public_key().clone().into(),
        });
        KeyRing::new(verifying.collect()).expect("there is at least one key")
    }
}

/// The key that signs, as the signer of each format that it signs.
#[allow(clippy::large_enum_variant, reason = "a process has one")]
pub(crate) enum SigningKey {
    Shared { v1: Signer, v2: Signer },
    Private(Signer),
}

impl SigningKey {
    /// The signer of a format that a key of this kind signs.
    pub(crate) fn signer(&self, format: Version) -> &Signer {
        match self {
            Self::Private(signer) => signer,
            Self::Shared { v1, .. } if !format.has_header() => v1,
            Self::Shared { v2, .. } => v2,
        }
    }
}

/// A key of any kind (token-format.md, "Keys").
#[allow(clippy::large_enum_variant, reason = "a process has a handful of keys")]
enum Key {
    /// Signs v3; its public key verifies that.
    Private(PrivateKey),
    /// A shared key, which also signs v1 and v2, or a public one.
    Verifying(VerifyingKey),
}

fn load_variable(name: &'static str) -> Result<Key, KeyError> {
    let text = Zeroizing::new(variable(name).map(OsString::into_encoded_bytes).unwrap_or_default());
    let (kind, key) = match name {
        SIGNING_KEY => ("private", PrivateKey::parse(text.as_slice()).map(Key::Private)),
        PUBLIC_KEY => {
            ("public", PublicKey::parse(text.as_slice()).map(|key| Key::Verifying(key.into())))
        }
        _ => ("shared", SharedKey::from_hex(text.as_slice()).map(|key| Key::Verifying(key.into()))),
    };
    key.map_err(|reason| {
        KeyError(format!("{name} is no {kind} key: {reason}{}", surroundings(&text)))
    })
}

/// What stands around a key that does not belong to it, if anything does.
fn surroundings(text: &[u8]) -> &'static str {
    let is_quote = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b'"' | b'\''));
    if is_quote(text.trim_ascii().first()) || is_quote(text.trim_ascii().last()) {
        "; it stands in quotes, which belong to no key: leave them out"
    } else if text.trim_ascii().len() < text.len() {
        "; there is a blank or a line break before or after it: leave it out"
    } else {
        ""
    }
}

fn load_file(path: &Path) -> Result<Keys, KeyError> {
    let file = format!("the key file {}", path.display());
    let (content, is_exposed) = read_file(path).map_err(|error| {
        match path.to_str() {
        Some(text) if looks_like_a_key(text) => KeyError(
            "what MAILROOM_KEY_FILE or --key-file says looks like a key and is no file; it must be \
             the path of a file that holds the key"
                .to_owned(),
        ),
        _ => KeyError(format!("{file} cannot be read: {error}")),
    }
    })?;
    if content.len() as u64 > MAX_FILE {
        let advice = "it must hold one key a line and nothing else";
        return Err(KeyError(format!("{file} is longer than {MAX_FILE} bytes; {advice}")));
    }
    let lines = (1..).zip(content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii));
    let mut keys = Vec::new();
    let mut origin = None;
    for (line, text) in lines.filter(|(_, text)| !text.is_empty() && !text.starts_with(b"#")) {
        let place = format!("line {line} of {file}");
        // The prefix decides the kind.
        let key = if text.starts_with(b"mrsk_") {
            PrivateKey::parse(text).map(Key::Private)
        } else {
            VerifyingKey::parse(text).map(Key::Verifying)
        };
        keys.push(key.map_err(|reason| {
            KeyError(format!("{place} is no key: {reason}{}", surroundings(text)))
        })?);
        origin.get_or_insert(place);
    }
    let Some(origin) = origin else {
        return Err(KeyError(format!("{file} has no key; write one with `mailroom keygen`")));
    };
    // Refusing, as ssh does, would stop containers whose secrets are mounted with fixed modes.
    if is_exposed && keys.iter().any(|key| !matches!(key, Key::Verifying(Public(_)))) {
        tracing::warn!(
            event = "key_file_exposed",
            "{file} can be read by every user of this machine; `chmod o= {}` keeps it private",
            path.display()
        );
    }
    Ok(Keys { keys, origin })
}

/// What a file holds, up to a byte more than may be,
/// and whether every user of this machine can read it.
fn read_file(path: &Path) -> io::Result<(Zeroizing<Vec<u8>>, bool)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let is_exposed = metadata.is_file() && metadata.permissions().mode() & 0o007 != 0;
    // Sized beforehand: growing would leave copies of the keys in freed memory.
    let capacity = usize::try_from(MAX_FILE + 1).expect("64 KiB fit into memory");
    let mut content = Zeroizing::new(Vec::with_capacity(capacity));
    file.take(MAX_FILE + 1).read_to_end(&mut content)?;
    Ok((content, is_exposed))
}

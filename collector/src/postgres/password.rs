//! The password, and the password file.
//!
//! Section 34.16 of PostgreSQL's documentation defines the file: lines of `host:port:database:user:password`,
//! in which the first four may be `*`, and `\` stands before a `:` or `\` that belongs to a field.

use std::fmt;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A password; its bytes appear in no debugging output.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Password(Vec<u8>);

impl Password {
    /// A password, unless it is empty, which libpq takes for none.
    pub(super) fn new(bytes: &[u8]) -> Option<Self> {
        (!bytes.is_empty()).then(|| Self(bytes.to_vec()))
    }

    /// For the connection, and for nothing that is shown.
    pub(super) fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Password(_)")
    }
}

/// What a password is looked up for.
#[derive(Debug, Clone, Copy)]
pub(super) struct PasswordKey<'a> {
    /// A host name, an address, a socket folder, or `localhost` for the usual socket folders.
    pub(super) host: &'a str,
    pub(super) port: u16,
    pub(super) database: &'a str,
    pub(super) user: &'a str,
}

/// Why a password file is ignored.
#[derive(Debug, thiserror::Error)]
pub(super) enum PasswordFileFault {
    #[error("the password file {} is ignored: it is not a plain file", .0.display())]
    NotPlain(PathBuf),
    #[error("the password file {} is ignored: others may read it; run chmod 0600 on it", .0.display())]
    OpenToOthers(PathBuf),
    #[error("the password file {} is ignored: {reason}", .file.display())]
    Unreadable { file: PathBuf, reason: ErrorKind },
}

/// The first matching password of the file; none if there is no such file.
pub(super) fn look_up(file: &Path, key: &PasswordKey<'_>) -> Result<Option<Password>, PasswordFileFault> {
    let unreadable =
        |error: std::io::Error| PasswordFileFault::Unreadable { file: file.to_owned(), reason: error.kind() };
    // A pipe or device would block on being opened.
    match std::fs::metadata(file) {
        Ok(metadata) if !metadata.is_file() => return Err(PasswordFileFault::NotPlain(file.to_owned())),
        Ok(_) => {}
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(error)),
    }
    let mut opened = std::fs::File::open(file).map_err(unreadable)?;
    if opened.metadata().map_err(unreadable)?.mode() & 0o077 != 0 {
        return Err(PasswordFileFault::OpenToOthers(file.to_owned()));
    }
    let mut content = Vec::new();
    opened.read_to_end(&mut content).map_err(unreadable)?;
    Ok(content.split(|&byte| byte == b'\n').find_map(|line| matching(line, key)))
}

/// The password of a line whose fields match.
fn matching(line: &[u8], key: &PasswordKey<'_>) -> Option<Password> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.starts_with(b"#") {
        return None;
    }
    let rest = after_field(line, key.host)?;
    let rest = after_field(rest, &key.port.to_string())?;
    let rest = after_field(rest, key.database)?;
    let rest = after_field(rest, key.user)?;
    Password::new(&unescaped(rest))
}

/// What follows the first field of `line`, if that field is `*` or says `expected`.
fn after_field<'a>(line: &'a [u8], expected: &str) -> Option<&'a [u8]> {
    if let Some(rest) = line.strip_prefix(b"*:") {
        return Some(rest);
    }
    let mut expected = expected.bytes();
    let mut at = 0;
    while *line.get(at)? != b':' {
        if line[at] == b'\\' {
            at += 1;
        }
        if expected.next()? != *line.get(at)? {
            return None;
        }
        at += 1;
    }
    expected.next().is_none().then(|| &line[at + 1..])
}

/// The text up to a `:` without `\` before it.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut password = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next_if(|&byte| byte != b':') {
        match byte {
            b'\\' => password.push(bytes.next().unwrap_or(byte)),
            byte => password.push(byte),
        }
    }
    password
}

#[cfg(test)]
mod tests {
    use super::super::fixture::FixedEnvironment;
    use super::*;

    const KEY: PasswordKey<'_> =
        PasswordKey { host: "db.example.test", port: 5432, database: "mailroom", user: "collector" };

    fn found(content: impl AsRef<[u8]>, key: &PasswordKey<'_>) -> Option<String> {
        let environment = FixedEnvironment::new().file("pass", content, 0o600);
        let password = look_up(&environment.home().join("pass"), key).unwrap()?;
        Some(String::from_utf8_lossy(password.expose()).into_owned())
    }

    #[test]
    fn the_first_line_that_matches_gives_the_password() {
        for (content, expected) in [
            ("db.example.test:5432:mailroom:collector:secret", Some("secret")),
            ("db.example.test:5432:mailroom:collector:secret\r\n", Some("secret")),
            ("*:*:*:*:secret\n", Some("secret")),
            ("# db.example.test:5432:mailroom:collector:no\n*:*:*:*:yes\n", Some("yes")),
            ("#:*:*:*:no", None),
            ("\n\n*:*:*:collector:first\n*:*:*:*:second\n", Some("first")),
            ("*:5433:*:*:no\n*:*:other:*:no\n*:*:*:other:no\nother:*:*:*:no\n", None),
            ("db.example.test:5432:mailroom:collector", None),
            ("db.example.test:5432:mailroom:collector:", None),
            ("*:*:*:*:", None),
            ("db.example.tes:*:*:*:no\ndb.example.test2:*:*:*:no", None),
            (r"db\.example\.test:*:*:*:a\:b\\c\d", Some(r"a:b\cd")),
            (r"*:*:*:*:end\", Some(r"end\")),
            ("*:*:*:*:secret:ignored", Some("secret")),
            ("*:*:*:*: spaces stay ", Some(" spaces stay ")),
            ("**:*:*:*:no", None),
            ("", None),
            (":", None),
            ("\\", None),
            ("::::", None),
        ] {
            assert_eq!(found(content, &KEY).as_deref(), expected, "{content:?}");
        }
    }

    #[test]
    fn names_with_colons_and_backslashes_are_matched_escaped() {
        let key = PasswordKey { host: "::1", user: r"dom\user", ..KEY };
        assert_eq!(found(r"\:\:1:*:*:dom\\user:secret", &key).as_deref(), Some("secret"));
        assert_eq!(found(r"::1:*:*:dom\\user:secret", &key), None);
        let socket = PasswordKey { host: "/run/postgresql", ..KEY };
        assert_eq!(found("/run/postgresql:*:*:*:secret", &socket).as_deref(), Some("secret"));
    }

    #[test]
    fn a_password_may_be_any_bytes() {
        let environment = FixedEnvironment::new().file("pass", b"*:*:*:*:\xff\x80\xe9", 0o600);
        let password = look_up(&environment.home().join("pass"), &KEY).unwrap().unwrap();
        assert_eq!(password.expose(), b"\xff\x80\xe9");
    }

    #[test]
    fn a_file_that_others_may_read_is_ignored_with_a_reason() {
        for (mode, ignored) in
            [(0o600, false), (0o400, false), (0o700, false), (0o640, true), (0o604, true), (0o620, true)]
        {
            let environment = FixedEnvironment::new().file("pass", "*:*:*:*:secret", mode);
            let outcome = look_up(&environment.home().join("pass"), &KEY);
            assert_eq!(outcome.is_err(), ignored, "{mode:o}");
            if let Err(fault) = outcome {
                assert!(fault.to_string().contains("chmod 0600"), "{fault}");
            }
        }
    }

    #[test]
    fn a_missing_file_is_no_fault_and_a_folder_is_one() {
        let environment = FixedEnvironment::new();
        assert!(look_up(&environment.home().join("pass"), &KEY).unwrap().is_none());
        let fault = look_up(environment.home(), &KEY).unwrap_err().to_string();
        assert!(fault.contains("not a plain file"), "{fault}");
    }

    #[test]
    fn debugging_output_hides_the_password() {
        let password = Password::new(b"hunter2").unwrap();
        assert_eq!(format!("{password:?}"), "Password(_)");
    }
}

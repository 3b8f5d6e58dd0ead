//! The password, and the password file.
//!
//! Section 34.16 of PostgreSQL's documentation defines the file: lines of
//! `host:port:database:user:password`, in which the first four may be `*`, and `\` stands before a
//! `:` or `\` that belongs to a field.

use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The first matching password of the file, none if there is no such file,
/// or why the file is ignored.
///
/// The fields are host, port, database and user. The host is a name, an address, a socket folder,
/// or `localhost` for the usual socket folders.
pub(crate) fn look_up(file: &Path, fields: [&str; 4]) -> Result<Option<Vec<u8>>, String> {
    let ignored =
        |reason: &str| format!("the password file {} is ignored: {reason}", file.display());
    let unreadable = |error: std::io::Error| ignored(&error.kind().to_string());
    // A pipe or device would block on being opened.
    match std::fs::metadata(file) {
        Ok(metadata) if !metadata.is_file() => return Err(ignored("it is not a plain file")),
        Ok(_) => {}
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(error)),
    }
    let mut opened = std::fs::File::open(file).map_err(unreadable)?;
    if opened.metadata().map_err(unreadable)?.mode() & 0o077 != 0 {
        return Err(ignored("others may read it; run chmod 0600 on it"));
    }
    let mut content = Vec::new();
    opened.read_to_end(&mut content).map_err(unreadable)?;
    Ok(content.split(|&byte| byte == b'\n').find_map(|line| matching(line, fields)))
}

/// The password of a line whose fields match.
fn matching(line: &[u8], fields: [&str; 4]) -> Option<Vec<u8>> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.starts_with(b"#") {
        return None;
    }
    let rest = fields.into_iter().try_fold(line, after_field)?;
    Some(unescaped(rest)).filter(|password| !password.is_empty())
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
    use super::*;
    use crate::fixture::TestEnvironment;

    const FIELDS: [&str; 4] = ["db.example.test", "5432", "mailroom", "collector"];

    fn found(content: impl AsRef<[u8]>, fields: [&str; 4]) -> Option<Vec<u8>> {
        let environment = TestEnvironment::new().file("pass", content, 0o600);
        look_up(&environment.home.join("pass"), fields).unwrap()
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
            ("db.example.tes:*:*:*:no\ndb.example.test2:*:*:*:no", None),
            (r"db\.example\.test:*:*:*:a\:b\\c\d", Some(r"a:b\cd")),
            (r"*:*:*:*:end\", Some(r"end\")),
            ("*:*:*:*:secret:ignored", Some("secret")),
            ("*:*:*:*: spaces stay ", Some(" spaces stay ")),
            ("**:*:*:*:no", None),
            (":", None),
            ("\\", None),
        ] {
            assert_eq!(
                found(content, FIELDS).as_deref(),
                expected.map(str::as_bytes),
                "{content:?}"
            );
        }
    }

    #[test]
    fn names_are_matched_escaped_and_a_password_may_be_any_bytes() {
        let key = ["::1", "5432", "mailroom", r"dom\user"];
        assert_eq!(found(r"\:\:1:*:*:dom\\user:secret", key).as_deref(), Some(&b"secret"[..]));
        assert_eq!(found(r"::1:*:*:dom\\user:secret", key), None);
        assert_eq!(found(b"*:*:*:*:\xff\x80\xe9", key).as_deref(), Some(&b"\xff\x80\xe9"[..]));
        let socket = ["/run/postgresql", "5432", "mailroom", "collector"];
        assert_eq!(found("/run/postgresql:*:*:*:secret", socket).as_deref(), Some(&b"secret"[..]));
    }

    #[test]
    fn a_file_that_others_may_read_is_ignored_with_a_reason() {
        for (mode, ignored) in [
            (0o600, false),
            (0o400, false),
            (0o700, false),
            (0o640, true),
            (0o604, true),
            (0o620, true),
        ] {
            let environment = TestEnvironment::new().file("pass", "*:*:*:*:secret", mode);
            let fault = look_up(&environment.home.join("pass"), FIELDS).err();
            assert_eq!(
                fault.is_some_and(|fault| fault.contains("chmod 0600")),
                ignored,
                "{mode:o}"
            );
        }
    }

    #[test]
    fn a_missing_file_is_no_fault_and_a_folder_is_one() {
        let environment = TestEnvironment::new();
        assert!(look_up(&environment.home.join("pass"), FIELDS).unwrap().is_none());
        let fault = look_up(&environment.home, FIELDS).unwrap_err();
        assert!(fault.contains("not a plain file"), "{fault}");
    }
}

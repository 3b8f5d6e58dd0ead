//! Tests that no password is shown, whatever else is wrong. That of well-formed strings is a
//! property of `tests/properties`.

use proptest::prelude::*;

use super::ConnectionSettings;
use super::fixture::TestEnvironment;

/// Passwords whose every fragment can be recognised,
/// with the characters between that split strings.
fn treacherous_password() -> impl Strategy<Value = String> {
    let separator = prop::sample::select(vec![
        "/", "?", "&", "=", "@", ":", "%", "%4", "'", "\\", " ", "#", "[", "]", ",", "//", "=x&",
        "@h/", "%00", "\n",
    ]);
    prop::collection::vec(separator, 0..5).prop_map(|separators| {
        separators
            .iter()
            .fold("ZQX".to_owned(), |password, separator| format!("{password}{separator}ZQX"))
    })
}

/// All that could be logged of resolving a connection string.
fn shown(string: &str, environment: &TestEnvironment) -> String {
    match ConnectionSettings::resolve(string, environment) {
        Ok(settings) => format!("{settings} {settings:?}"),
        Err(error) => format!("{error} {error:?}"),
    }
}

proptest! {
    #[test]
    fn a_password_without_encoding_or_quotes_is_not_shown_as_something_else(
        password in treacherous_password(),
    ) {
        let environment = TestEnvironment::new();
        for string in [
            format!("postgresql://u:{password}@h/db"),
            format!("postgresql://u:{password}@h:0/db?unknown=1"),
            format!("postgresql://h?password={password}"),
            format!("postgresql://h/db?password={password}"),
            format!("postgresql://h/db?password={password}&port=0"),
            format!("host=h password={password}"),
            format!("host=h password='{password}' port=0"),
            format!("password = {password} sslmode=x"),
        ] {
            let shown = shown(&string, &environment);
            prop_assert!(!shown.contains("ZQX"), "{string}: {shown}");
        }
    }
}

#[test]
fn neither_a_piece_of_a_password_nor_one_of_the_environment_is_shown() {
    let environment =
        TestEnvironment::new().set("PGPASSWORD", "SECRET").file(".pgpass", "*:*:*:*:SECRET", 0o600);
    for string in [
        "password=ab SECRET=1",
        "password=ab SECRET",
        "password='ab'SECRET=1",
        "password='SECRET",
        "postgresql://h?password=ab&SECRET=1",
        "postgresql://h?SECRET=1&user=a@b",
        "postgresql://h/?SECRET=1&user=a@b",
        "postgresql://h?password=SECRET@b",
        "postgresql://u:12/x?SECRET=1@h/db",
        "postgresql://u:SECRET/x@h/db",
        "postgresql://u:x@SECRET@h/db",
        "postgresql://h?password=SECRET=1",
        "postgresql://h?password=a&SECRET",
        "host=h",
    ] {
        let shown = shown(string, &environment);
        assert!(!shown.contains("SECRET"), "{string}: {shown}");
    }
}

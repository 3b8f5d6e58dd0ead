//! Tests that no password is shown, whatever else is wrong.

use proptest::prelude::*;

use super::ConnectionSettings;
use super::fixture::FixedEnvironment;

/// Passwords whose every fragment can be recognised, with the characters between that split strings.
fn treacherous_password() -> impl Strategy<Value = String> {
    let separator = prop::sample::select(vec![
        "/", "?", "&", "=", "@", ":", "%", "%4", "'", "\\", " ", "#", "[", "]", ",", "//", "=x&", "@h/",
        "%00", "\n",
    ]);
    prop::collection::vec(separator, 0..5).prop_map(|separators| {
        separators.iter().fold("ZQX".to_owned(), |password, separator| format!("{password}{separator}ZQX"))
    })
}

fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |encoded, byte| format!("{encoded}%{byte:02x}"))
}

/// All that could be logged of resolving a connection string.
fn shown(string: &str, environment: &FixedEnvironment) -> String {
    match ConnectionSettings::resolve(string, environment) {
        Ok(settings) => format!("{settings} {settings:?}"),
        Err(error) => format!("{error} {error:?}"),
    }
}

proptest! {
    #[test]
    fn no_error_and_no_debugging_output_contains_a_password(
        password in treacherous_password(),
        fault in prop::sample::select(vec![
            "", "&port=0", "&sslmode=x", "&unknown=1", "&x", "&gssencmode=require", "&sslmode=verify-full",
            "&dbname=%zz", "&port=1,2", "&connect_timeout=x",
        ]),
    ) {
        let environment = FixedEnvironment::new()
            .set("PGPASSWORD", &password)
            .file(".pgpass", format!("*:*:*:*:{password}"), 0o600);
        let quoted = password.replace('\\', "\\\\").replace('\'', "\\'");
        let encoded = percent_encoded(&password);
        let words = fault.replace('&', " ");
        for string in [
            format!("postgresql://u:{encoded}@h/db?host=h2{fault}"),
            format!("postgresql://h/db?password={encoded}{fault}"),
            format!("postgresql://h/db?host=h2{fault}"),
            format!("host=h password='{quoted}'{words}"),
            format!("host=h{words}"),
        ] {
            let shown = shown(&string, &environment);
            prop_assert!(!shown.contains("ZQX") && !shown.contains(&encoded), "{string}: {shown}");
        }
    }

    #[test]
    fn a_password_without_encoding_or_quotes_is_not_shown_as_something_else(
        password in treacherous_password(),
    ) {
        let environment = FixedEnvironment::new();
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

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC*", uri in "postgres://[ -~]*") {
        let environment = FixedEnvironment::new();
        shown(&text, &environment);
        shown(&uri, &environment);
    }
}

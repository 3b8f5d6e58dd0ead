//! The connection service file: named groups of parameters.
//!
//! Section 34.17 of PostgreSQL's documentation defines the form: `[name]` begins a service, each further line
//! is `parameter=value`, and nothing is quoted.

use std::io;
use std::path::{Path, PathBuf};

use super::parameter::{Parameter, Values};
use super::{Environment, Origin, SettingsError};

/// Fills in the parameters of the service that is named, if one is.
pub(super) fn apply(values: &mut Values, environment: &dyn Environment) -> Result<(), SettingsError> {
    let Some((origin, service)) = named(values, "service", "PGSERVICE", environment)? else { return Ok(()) };
    let explicit = named(values, "servicefile", "PGSERVICEFILE", environment)?;

    let own = match explicit {
        Some((_, file)) => Some(PathBuf::from(file)),
        None => environment.home_directory().map(|home| home.join(".pg_service.conf")),
    };
    let shared = system_folder(environment).join("pg_service.conf");
    let mut searched = None;
    for file in own.into_iter().chain([shared]) {
        let text = match std::fs::read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(fault(&file, format!("cannot be read: {error}"))),
        };
        if apply_file(values, &service, &file, &text)? {
            return Ok(());
        }
        searched = Some(file);
    }
    match searched {
        Some(file) => Err(fault(&file, format!("does not define the service that {origin} names"))),
        None => Err(SettingsError::NoServiceFile { origin }),
    }
}

/// Where packages put the service file of the whole machine.
fn system_folder(environment: &dyn Environment) -> PathBuf {
    environment.variable("PGSYSCONFDIR").map_or_else(|| "/etc/postgresql-common".into(), PathBuf::from)
}

/// A parameter of the connection string or, as no service file can give it, of the environment.
fn named(
    values: &Values,
    name: &'static str,
    variable: &'static str,
    environment: &dyn Environment,
) -> Result<Option<(Origin, String)>, SettingsError> {
    if let Some((origin, value)) = values.text(name)? {
        return Ok((!value.is_empty()).then(|| (origin, value.to_owned())));
    }
    let origin = Origin::Variable(variable);
    environment
        .variable(variable)
        .filter(|value| !value.is_empty())
        .map(|value| value.into_string().map_err(|_| SettingsError::NotUtf8 { origin }))
        .transpose()
        .map(|value| value.map(|value| (origin, value)))
}

/// Whether `text` defines the service; its parameters become defaults.
fn apply_file(values: &mut Values, service: &str, file: &Path, text: &[u8]) -> Result<bool, SettingsError> {
    let mut found = false;
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let number = index + 1;
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        if let Some(header) = line.strip_prefix(b"[") {
            if found {
                return Ok(true);
            }
            found = header.strip_suffix(b"]") == Some(service.as_bytes());
            continue;
        }
        if !found {
            continue;
        }
        if line.starts_with(b"ldap:") {
            return Err(fault(
                file,
                format!("asks for an LDAP server in line {number}, which is not supported"),
            ));
        }
        let Some(equal) = line.iter().position(|&byte| byte == b'=') else {
            return Err(fault(file, format!("has a line without \"=\", line {number}")));
        };
        let parameter = std::str::from_utf8(&line[..equal]).ok().and_then(Parameter::named);
        match parameter {
            Some(parameter) if !matches!(parameter.name, "service" | "servicefile") => {
                values.set_default(parameter, &line[equal + 1..]);
            }
            Some(_) => return Err(fault(file, format!("names another service in line {number}"))),
            None => return Err(fault(file, format!("has an unknown parameter in line {number}"))),
        }
    }
    Ok(found)
}

fn fault(file: &Path, fault: String) -> SettingsError {
    SettingsError::ServiceFile { file: file.to_owned(), fault }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::FixedEnvironment;
    use super::*;

    const FILE: &str = "# a comment\n\n[other]\nhost=other\n\n[mail]\nhost=db.example.test\r\nport=6000\n\
        dbname=two words\npassword=p=w\n[after]\nuser=after\n[broken]\nnonsense\n[unknown]\nhots=a\n\
        [nested]\nservice=mail\n[ldap]\nldap://x\n";

    fn applied(string: &str, environment: &FixedEnvironment) -> Result<Values, SettingsError> {
        let mut values = super::super::keyword::parse(string)?;
        apply(&mut values, environment)?;
        Ok(values)
    }

    #[test]
    fn a_service_gives_what_the_connection_string_does_not() {
        let environment = FixedEnvironment::new().file(".pg_service.conf", FILE, 0o644);
        let values = applied("service=mail port=7", &environment).unwrap();
        assert_eq!(values.text("host").unwrap().unwrap().1, "db.example.test");
        assert_eq!(values.text("port").unwrap().unwrap().1, "7");
        assert_eq!(values.text("dbname").unwrap().unwrap().1, "two words");
        assert_eq!(values.text("password").unwrap().unwrap().1, "p=w");
        assert!(values.text("user").unwrap().is_none());
    }

    #[test]
    fn the_service_and_its_file_may_come_from_variables() {
        let environment = FixedEnvironment::new().file("services", FILE, 0o644);
        let file = environment.home().join("services");
        let environment = environment.set("PGSERVICE", "other").set("PGSERVICEFILE", &file);
        let values = applied("", &environment).unwrap();
        assert_eq!(values.text("host").unwrap().unwrap().1, "other");
    }

    #[test]
    fn the_file_of_the_machine_is_searched_after_that_of_the_user() {
        let environment = FixedEnvironment::new()
            .file(".pg_service.conf", "[mine]\nhost=mine\n", 0o644)
            .file("system/pg_service.conf", "[mine]\nhost=theirs\n[shared]\nhost=shared\n", 0o644);
        let folder = environment.home().join("system");
        let environment = environment.set("PGSYSCONFDIR", &folder);
        let host = |service: &str| {
            let values = applied(&format!("service={service}"), &environment).unwrap();
            values.text("host").unwrap().unwrap().1.to_owned()
        };
        assert_eq!((host("mine").as_str(), host("shared").as_str()), ("mine", "shared"));
    }

    #[test]
    fn faults_of_a_service_file_are_said_with_their_line() {
        let environment = FixedEnvironment::new().file(".pg_service.conf", FILE, 0o644);
        for (service, message) in [
            ("missing", "does not define"),
            ("broken", "line 14"),
            ("unknown", "line 16"),
            ("nested", "line 18"),
            ("ldap", "line 20"),
        ] {
            let error = applied(&format!("service={service}"), &environment).err().unwrap().to_string();
            assert!(error.contains(message) && error.contains(".pg_service.conf"), "{service}: {error}");
        }
        let error = applied("service=mail", &FixedEnvironment::new()).err().unwrap().to_string();
        assert!(error.starts_with("service names a service, but there is no service file"), "{error}");
    }
}

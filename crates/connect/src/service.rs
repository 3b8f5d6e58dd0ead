//! The connection service file: named groups of parameters.
//!
//! Section 34.17 of PostgreSQL's documentation defines the form: `[name]` begins a service, each
//! further line is `parameter=value`, and nothing is quoted.

use std::io;
use std::path::Path;

use super::parameters::{Parameter, Values};
use super::{Environment, SettingsError};

/// Fills in the parameters of the service that is named, if one is.
pub(crate) fn apply(values: &mut Values, environment: &Environment) -> Result<(), SettingsError> {
    for name in ["service", "servicefile"] {
        values.set_from_variables(environment, Some(name));
    }
    let Some((origin, service)) = values.non_empty("service")? else { return Ok(()) };
    let origin = origin.to_owned();
    let service = service.to_owned();
    let own = values.path("servicefile", environment.home.join(".pg_service.conf"))?;
    // Where packages put the service file of the whole machine.
    let shared = environment.variable("PGSYSCONFDIR").unwrap_or("/etc/postgresql-common".as_ref());
    let shared = Path::new(shared).join("pg_service.conf");
    let mut searched = None;
    for file in [own, shared] {
        let text = match std::fs::read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(fault(&file, &format!("cannot be read: {error}"))),
        };
        if apply_file(values, &service, &file, &text)? {
            return Ok(());
        }
        searched = Some(file);
    }
    Err(match searched {
        Some(file) => fault(&file, &format!("does not define the service that {origin} names")),
        None => SettingsError::new(format!(
            "{origin} names a service, but there is no service file; \
             make ~/.pg_service.conf or set PGSERVICEFILE"
        )),
    })
}

/// Whether `text` defines the service; its parameters become defaults.
fn apply_file(
    values: &mut Values,
    service: &str,
    file: &Path,
    text: &[u8],
) -> Result<bool, SettingsError> {
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
        let fault = |what: &str| Err(fault(file, &format!("{what} in line {number}")));
        if line.starts_with(b"ldap:") {
            return fault("names an LDAP server, which is not supported,");
        }
        let Some(equal) = line.iter().position(|&byte| byte == b'=') else {
            return fault("has no \"=\"");
        };
        match std::str::from_utf8(&line[..equal]).ok().and_then(Parameter::named) {
            Some(parameter) if !matches!(parameter.name, "service" | "servicefile") => {
                values.set_default(parameter.name, &line[equal + 1..]);
            }
            Some(_) => return fault("names another service"),
            None => return fault("has an unknown parameter"),
        }
    }
    Ok(found)
}

fn fault(file: &Path, fault: &str) -> SettingsError {
    SettingsError::new(format!("the service file {} {fault}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::TestEnvironment;

    const FILE: &str = "# a comment\n\n[other]\nhost=other\n\n[mail]\nhost=db.example.test\r\n\
                        port=6000\n\
                        dbname=two words\npassword=p=w\n[after]\nuser=after\n[broken]\nnonsense\n\
                        [unknown]\nhots=a\n\
                        [nested]\nservice=mail\n[ldap]\nldap://x\n";

    fn applied(string: &str, environment: &TestEnvironment) -> Result<Values, SettingsError> {
        let mut values = crate::keywords::parse(string)?;
        apply(&mut values, environment)?;
        Ok(values)
    }

    #[test]
    fn a_service_gives_what_the_connection_string_does_not() {
        let environment = TestEnvironment::new().file(".pg_service.conf", FILE, 0o644);
        let values = applied("service=mail port=7", &environment).unwrap();
        let shown = values.shown(&["host", "port", "dbname", "password", "user"]);
        assert_eq!(shown, "host=<db.example.test> port=<7> dbname=<two words> password=<p=w>");
    }

    #[test]
    fn files_are_searched_in_the_order_of_variable_home_and_machine() {
        let environment = TestEnvironment::new()
            .file("named", FILE, 0o644)
            .file(".pg_service.conf", "[mine]\nhost=mine\n", 0o644)
            .file("system/pg_service.conf", "[mine]\nhost=theirs\n[shared]\nhost=shared\n", 0o644);
        let (named, folder) = (environment.home.join("named"), environment.home.join("system"));
        let environment = environment.set("PGSYSCONFDIR", &folder).set("PGSERVICE", "mine");
        let host = |string: &str, environment: &_| {
            applied(string, environment).unwrap().of("host").map(str::to_owned)
        };
        assert_eq!(host("", &environment).unwrap(), "mine");
        assert_eq!(host("service=shared", &environment).unwrap(), "shared");
        let environment = environment.set("PGSERVICE", "other").set("PGSERVICEFILE", &named);
        assert_eq!(host("", &environment).unwrap(), "other");
    }

    #[test]
    fn faults_of_a_service_file_are_said_with_their_line() {
        let environment = TestEnvironment::new().file(".pg_service.conf", FILE, 0o644);
        for (service, message) in [
            ("missing", "does not define"),
            ("broken", "line 14"),
            ("unknown", "line 16"),
            ("nested", "line 18"),
            ("ldap", "line 20"),
        ] {
            let error =
                applied(&format!("service={service}"), &environment).err().unwrap().to_string();
            assert!(
                error.contains(message) && error.contains(".pg_service.conf"),
                "{service}: {error}"
            );
        }
        let error = applied("service=mail", &TestEnvironment::new()).err().unwrap().to_string();
        assert!(
            error.starts_with("service names a service, but there is no service file"),
            "{error}"
        );
    }
}

//! Which servers to try: the lists of hosts, addresses and ports.

use std::fmt;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::parameters::{Text, Values};
use super::{Environment, SettingsError};

/// One server of the list, in the order in which they are tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) host: Host,
    pub(crate) port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Host {
    /// Folders with the server's socket, in the order in which they are searched; at least one.
    Sockets(Vec<PathBuf>),
    /// A name or address for TCP, and the address if the name is not to be looked up.
    Tcp(String, Option<IpAddr>),
}

impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Tcp(name, _) => write!(formatter, "{name}, port {}", self.port),
            Host::Sockets(folders) => {
                write!(
                    formatter,
                    "{}",
                    socket(folder_in_use(folders, self.port), self.port).display()
                )
            }
        }
    }
}

/// The first folder with a socket, otherwise the first one.
pub(crate) fn folder_in_use(folders: &[PathBuf], port: u16) -> &Path {
    let with_socket = folders.iter().find(|folder| socket(folder, port).exists());
    with_socket.or(folders.first()).map_or(Path::new("/tmp"), PathBuf::as_path)
}

/// The socket that a server with this port makes in `folder`.
pub(crate) fn socket(folder: &Path, port: u16) -> PathBuf {
    folder.join(format!(".s.PGSQL.{port}"))
}

/// Combines the parameters `host`, `hostaddr` and `port`.
pub(crate) fn list(
    values: &Values,
    environment: &Environment,
) -> Result<Vec<Server>, SettingsError> {
    let hosts = elements(values.non_empty("host")?);
    let addresses = elements(values.non_empty("hostaddr")?);
    let ports = elements(values.non_empty("port")?);

    let count = [hosts.len(), addresses.len()].into_iter().find(|&count| count > 0).unwrap_or(1);
    for (list, one_for_all) in [(&addresses, ""), (&ports, ", or one for all")] {
        let given = list.len();
        if let Some((origin, _)) = list.first()
            && given != count
            && (given > 1 || one_for_all.is_empty())
        {
            return Err(SettingsError::new(format!(
                "{origin} lists {given} entries for {count} hosts; \
                 give one for each host{one_for_all}"
            )));
        }
    }
    let usual = usual_socket_folders(environment);
    (0..count)
        .map(|index| {
            let address = element(&addresses, index).map(address).transpose()?;
            let host = match (element(&hosts, index), address) {
                (Some(host), address) => explicit_host(host, address)?,
                (None, Some(address)) => Host::Tcp(address.to_string(), Some(address)),
                (None, None) => Host::Sockets(usual.clone()),
            };
            // A single port is for all hosts.
            let index = if ports.len() == 1 { 0 } else { index };
            let port = element(&ports, index).map_or(Ok(5432), port)?;
            Ok(Server { host, port })
        })
        .collect()
}

/// The elements of a list, one for each host; none if it was not given.
fn elements(list: Option<Text<'_>>) -> Vec<Text<'_>> {
    let Some((origin, list)) = list else { return Vec::new() };
    list.split(',').map(|text| (origin, text.trim_ascii())).collect()
}

/// The element for a host, unless it is empty.
fn element<'a>(elements: &[Text<'a>], host: usize) -> Option<Text<'a>> {
    elements.get(host).copied().filter(|(_, text)| !text.is_empty())
}

fn address((origin, text): Text<'_>) -> Result<IpAddr, SettingsError> {
    let allowed = "a numeric IPv4 or IPv6 address, or several separated by commas";
    text.parse().map_err(|_| SettingsError::invalid(origin, allowed))
}

fn explicit_host((origin, host): Text<'_>, address: Option<IpAddr>) -> Result<Host, SettingsError> {
    if host.starts_with('/') {
        return Ok(Host::Sockets(vec![host.into()]));
    }
    if host.starts_with('@') {
        let because = "sockets in the abstract namespace are not supported; use a socket folder";
        return Err(SettingsError::unsupported(origin, because));
    }
    let malformed = |character: char| {
        character.is_control() || character.is_whitespace() || "@/\\\"'<>?#".contains(character)
    };
    if host.contains(malformed) || host.len() > 255 {
        let allowed = "a host name, an address, or the path of a socket folder that begins with /";
        return Err(SettingsError::invalid(origin, allowed));
    }
    Ok(Host::Tcp(host.to_owned(), address))
}

/// The folders to look for a socket in.
///
/// A folder in which anybody may create files is used only where no other exists. Otherwise, while
/// the server is down, any local user could take its place.
fn usual_socket_folders(environment: &Environment) -> Vec<PathBuf> {
    let folders = environment.socket_folders.iter().filter(|folder| folder.is_dir()).cloned();
    let (open, own): (Vec<_>, Vec<_>) = folders
        .partition(|folder| folder.metadata().is_ok_and(|metadata| metadata.mode() & 0o002 != 0));
    [own, open]
        .into_iter()
        .find(|folders| !folders.is_empty())
        .unwrap_or(environment.socket_folders.clone())
}

fn port((origin, text): Text<'_>) -> Result<u16, SettingsError> {
    let number =
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    let allowed = "a whole number from 1 to 65535, or several separated by commas";
    number.filter(|&port| port != 0).ok_or_else(|| SettingsError::invalid(origin, allowed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::TestEnvironment;

    fn listed(string: &str) -> Result<Vec<Server>, SettingsError> {
        list(&crate::keywords::parse(string).unwrap(), &TestEnvironment::new())
    }

    fn tcp(host: &str, address: Option<&str>, port: u16) -> Server {
        Server { host: Host::Tcp(host.into(), address.map(|text| text.parse().unwrap())), port }
    }

    #[test]
    fn hosts_addresses_and_ports_are_combined_by_position() {
        for (string, expected) in [
            ("host=a", vec![tcp("a", None, 5432)]),
            ("host=a port=1", vec![tcp("a", None, 1)]),
            ("host=a,b port=1", vec![tcp("a", None, 1), tcp("b", None, 1)]),
            ("host=a,b port=1,2", vec![tcp("a", None, 1), tcp("b", None, 2)]),
            ("host=a,b port=,2", vec![tcp("a", None, 5432), tcp("b", None, 2)]),
            ("host=a hostaddr=10.0.0.1", vec![tcp("a", Some("10.0.0.1"), 5432)]),
            ("host=a,b hostaddr=,::1", vec![tcp("a", None, 5432), tcp("b", Some("::1"), 5432)]),
            ("hostaddr=10.0.0.1", vec![tcp("10.0.0.1", Some("10.0.0.1"), 5432)]),
            ("host=::1", vec![tcp("::1", None, 5432)]),
            ("host='a , b'", vec![tcp("a", None, 5432), tcp("b", None, 5432)]),
            (
                "host=/tmp,a port=7",
                vec![
                    Server { host: Host::Sockets(vec!["/tmp".into()]), port: 7 },
                    tcp("a", None, 7),
                ],
            ),
        ] {
            assert_eq!(listed(string).unwrap(), expected, "{string}");
        }
    }

    #[test]
    fn malformed_lists_are_refused() {
        for (string, message) in [
            ("port=0", "port must be a whole number from 1 to 65535"),
            ("port=65536", "port must be"),
            ("port=-1", "port must be"),
            ("port=+5432", "port must be"),
            ("port=5432x", "port must be"),
            ("port=99999999999999999999", "port must be"),
            ("host=a port=1,2", "port lists 2 entries for 1 hosts"),
            ("host=a,b,c port=1,2", "port lists 2 entries for 3 hosts"),
            ("host=a,b hostaddr=10.0.0.1", "hostaddr lists 1 entries for 2 hosts"),
            ("hostaddr=localhost", "hostaddr must be a numeric"),
            ("hostaddr=10.0.0.256", "hostaddr must be a numeric"),
            ("host=@abstract", "abstract"),
            ("host='two words'", "host must be"),
            ("host=a@b", "host must be"),
            ("host=http://a", "host must be"),
        ] {
            let error = listed(string).unwrap_err().to_string();
            assert!(error.contains(message), "{string}: {error}");
        }
        assert!(listed(&format!("host={}", "a".repeat(100_000))).is_err());
    }

    /// The folder that is used if no host is given.
    fn default_folder(folders: &[&Path]) -> PathBuf {
        let mut environment = TestEnvironment::new();
        environment.inner.socket_folders = folders.iter().map(PathBuf::from).collect();
        let server = list(&Values::default(), &environment).unwrap().remove(0);
        Path::new(&server.to_string()).parent().unwrap().to_owned()
    }

    #[test]
    fn without_a_host_the_first_usual_folder_with_a_socket_is_used() {
        let (run, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folders = [run.path(), second.path()];
        assert_eq!(default_folder(&folders), run.path());
        std::fs::write(second.path().join(".s.PGSQL.5432"), "").unwrap();
        assert_eq!(default_folder(&folders), second.path());
        std::fs::write(run.path().join(".s.PGSQL.5432"), "").unwrap();
        assert_eq!(default_folder(&folders), run.path());
    }

    #[test]
    fn a_folder_open_to_all_is_searched_only_where_it_is_the_only_one() {
        use std::os::unix::fs::PermissionsExt;
        let (run, open) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::set_permissions(open.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
        std::fs::write(open.path().join(".s.PGSQL.5432"), "").unwrap();
        assert_eq!(default_folder(&[run.path(), open.path()]), run.path());
        assert_eq!(default_folder(&[&run.path().join("missing"), open.path()]), open.path());
    }
}

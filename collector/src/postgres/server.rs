//! Which servers to try: the lists of hosts, addresses and ports.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::parameter::Values;
use super::{Environment, Origin, SettingsError};

/// One server of the list, in the order in which they are tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub(super) host: Host,
    /// Where the host is, if it is not to be looked up by its name.
    pub(super) address: Option<IpAddr>,
    pub(super) port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Host {
    /// No host was given: the usual socket folders.
    AnySocket(Vec<PathBuf>),
    /// A folder with the server's socket.
    Socket(PathBuf),
    /// A name or address for TCP.
    Tcp(String),
}

impl Server {
    /// Whether it is reached over the network, where TLS and keep-alive apply.
    pub(super) fn is_tcp(&self) -> bool {
        matches!(self.host, Host::Tcp(_))
    }

    /// The socket folder to use now: of several, the first one with a socket.
    pub(super) fn socket_folder(&self) -> Option<&Path> {
        match &self.host {
            Host::Tcp(_) => None,
            Host::Socket(folder) => Some(folder),
            Host::AnySocket(folders) => {
                let with_socket = folders.iter().find(|folder| socket_path(folder, self.port).exists());
                with_socket.or(folders.first()).map(PathBuf::as_path)
            }
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Tcp(name) => write!(formatter, "{name}, port {}", self.port),
            Host::Socket(_) | Host::AnySocket(_) => {
                let folder = self.socket_folder().unwrap_or(Path::new(""));
                write!(formatter, "{}", socket_path(folder, self.port).display())
            }
        }
    }
}

/// The socket that a server with this port makes in `folder`.
pub(super) fn socket_path(folder: &Path, port: u16) -> PathBuf {
    folder.join(format!(".s.PGSQL.{port}"))
}

/// Combines the parameters `host`, `hostaddr` and `port`.
pub(super) fn list(values: &Values, environment: &dyn Environment) -> Result<Vec<Server>, SettingsError> {
    let hosts = Elements::of(values.non_empty("host")?);
    let addresses = Elements::of(values.non_empty("hostaddr")?);
    let ports = Elements::of(values.non_empty("port")?);

    let count = [hosts.count(), addresses.count()].into_iter().find(|&count| count > 0).unwrap_or(1);
    addresses.check_count(count, false)?;
    ports.check_count(count, true)?;
    let folders = usual_socket_folders(environment);
    (0..count)
        .map(|index| {
            let address = addresses.at(index).map(|(origin, text)| address(origin, text)).transpose()?;
            let host = match (hosts.at(index), address) {
                (Some((origin, host)), _) => explicit_host(origin, host)?,
                (None, Some(address)) => Host::Tcp(address.to_string()),
                (None, None) => Host::AnySocket(folders.clone()),
            };
            let address = address.filter(|_| matches!(host, Host::Tcp(_)));
            let port = ports.at(index).map_or(Ok(5432), |(origin, text)| port(origin, text))?;
            Ok(Server { host, address, port })
        })
        .collect()
}

/// A parameter with one element for each host, if it was given.
struct Elements<'a>(Option<(Origin, Vec<&'a str>)>);

impl<'a> Elements<'a> {
    fn of(list: Option<(Origin, &'a str)>) -> Self {
        Self(list.map(|(origin, list)| (origin, list.split(',').map(str::trim_ascii).collect())))
    }

    fn count(&self) -> usize {
        self.0.as_ref().map_or(0, |(_, elements)| elements.len())
    }

    fn check_count(&self, hosts: usize, one_for_all: bool) -> Result<(), SettingsError> {
        match &self.0 {
            Some((origin, elements)) if elements.len() != hosts && !(one_for_all && elements.len() == 1) => {
                let (origin, given) = (*origin, elements.len());
                Err(SettingsError::CountMismatch { origin, given, hosts, one_for_all })
            }
            _ => Ok(()),
        }
    }

    /// The element for a host, unless it is empty; a single one is for all hosts.
    fn at(&self, host: usize) -> Option<(Origin, &'a str)> {
        let (origin, elements) = self.0.as_ref()?;
        let element = *elements.get(if elements.len() == 1 { 0 } else { host })?;
        (!element.is_empty()).then_some((*origin, element))
    }
}

fn address(origin: Origin, text: &str) -> Result<IpAddr, SettingsError> {
    text.parse().map_err(|_| SettingsError::InvalidValue {
        origin,
        allowed: "a numeric IPv4 or IPv6 address, or several separated by commas",
    })
}

fn explicit_host(origin: Origin, host: &str) -> Result<Host, SettingsError> {
    if host.starts_with('/') {
        return Ok(Host::Socket(host.into()));
    }
    if host.starts_with('@') {
        return Err(SettingsError::Unsupported {
            origin,
            because: "sockets in the abstract namespace are not supported; use a socket folder",
        });
    }
    let malformed = |character: char| {
        character.is_control() || character.is_whitespace() || "@/\\\"'<>?#".contains(character)
    };
    if host.contains(malformed) || host.len() > 255 {
        return Err(SettingsError::InvalidValue {
            origin,
            allowed: "a host name, an address, or the path of a socket folder that begins with /",
        });
    }
    Ok(Host::Tcp(host.to_owned()))
}

/// The folders to look for a socket in.
///
/// A folder in which anybody may create files comes into play only where no other exists. Otherwise, while
/// the server is down, any local user could take its place.
fn usual_socket_folders(environment: &dyn Environment) -> Vec<PathBuf> {
    let folders = environment.socket_directories();
    let existing = |folder: &&PathBuf| folder.is_dir();
    let (shared, own): (Vec<&PathBuf>, Vec<&PathBuf>) =
        folders.iter().filter(existing).partition(|folder| is_open_to_all(folder));
    let usable = if own.is_empty() { shared } else { own };
    if usable.is_empty() { folders } else { usable.into_iter().cloned().collect() }
}

fn is_open_to_all(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    folder.metadata().is_ok_and(|metadata| metadata.mode() & 0o002 != 0)
}

fn port(origin: Origin, text: &str) -> Result<u16, SettingsError> {
    let number = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    number.filter(|&port| port != 0).ok_or(SettingsError::InvalidValue {
        origin,
        allowed: "a whole number from 1 to 65535, or several separated by commas",
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::FixedEnvironment;
    use super::*;

    fn listed(string: &str) -> Result<Vec<Server>, SettingsError> {
        list(&super::super::keyword::parse(string).unwrap(), &FixedEnvironment::new())
    }

    fn tcp(host: &str, address: Option<&str>, port: u16) -> Server {
        Server { host: Host::Tcp(host.into()), address: address.map(|text| text.parse().unwrap()), port }
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
                vec![Server { host: Host::Socket("/tmp".into()), address: None, port: 7 }, tcp("a", None, 7)],
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

    #[test]
    fn without_a_host_the_first_usual_folder_with_a_socket_is_used() {
        let run = tempfile::tempdir().unwrap();
        let second = tempfile::tempdir().unwrap();
        let environment = FixedEnvironment::new().sockets_in(&[run.path(), second.path()]);
        let server = list(&Values::default(), &environment).unwrap().remove(0);

        assert_eq!(server.socket_folder(), Some(run.path()));
        std::fs::write(second.path().join(".s.PGSQL.5432"), "").unwrap();
        assert_eq!(server.socket_folder(), Some(second.path()));
        std::fs::write(run.path().join(".s.PGSQL.5432"), "").unwrap();
        assert_eq!(server.socket_folder(), Some(run.path()));
    }

    #[test]
    fn a_folder_open_to_all_is_searched_only_where_it_is_the_only_one() {
        use std::os::unix::fs::PermissionsExt;
        let run = tempfile::tempdir().unwrap();
        let open = tempfile::tempdir().unwrap();
        std::fs::set_permissions(open.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
        std::fs::write(open.path().join(".s.PGSQL.5432"), "").unwrap();

        let both = FixedEnvironment::new().sockets_in(&[run.path(), open.path()]);
        let server = list(&Values::default(), &both).unwrap().remove(0);
        assert_eq!(server.socket_folder(), Some(run.path()));

        let missing = run.path().join("missing");
        let only_open = FixedEnvironment::new().sockets_in(&[&missing, open.path()]);
        let server = list(&Values::default(), &only_open).unwrap().remove(0);
        assert_eq!(server.socket_folder(), Some(open.path()));
    }
}

//! Where the server listens: at an address, or at a socket in a folder.

use std::fmt;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// Who may connect to a socket: the user and the group that the server has.
const MODE: u32 = 0o660;

/// Where to listen.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Address(SocketAddr),
    Socket(PathBuf),
}

impl Place {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(Self::Socket(path.into())),
            Some(_) => Err("the path of a socket begins with /"),
            None => mailroom_http::address(text)
                .map(Self::Address)
                .ok_or("write ADDRESS:PORT, PORT at 127.0.0.1, or unix:PATH"),
        }
    }

    /// Whether no other machine reaches it.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Address(address) => address.ip().to_canonical().is_loopback(),
            Self::Socket(_) => true,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(formatter),
            Self::Socket(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

/// A socket, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl SocketFile {
    /// Listens; what a server that has ended left there is removed.
    pub(crate) fn listen(path: &Path) -> io::Result<(UnixListener, Self)> {
        let is_left = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
            && UnixStream::connect(path)
                .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
        if is_left {
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        let file = Self(path.to_owned());
        fs::set_permissions(path, Permissions::from_mode(MODE))?;
        Ok((listener, file))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_and_sockets_are_of_this_machine() {
        for (text, expected) in [
            ("8027", Some(true)),
            ("127.0.0.1:8027", Some(true)),
            ("[::1]:8027", Some(true)),
            ("[::ffff:127.0.0.1]:8027", Some(true)),
            ("unix:/run/mailroom/serve.sock", Some(true)),
            ("0.0.0.0:8027", Some(false)),
            ("[::]:8027", Some(false)),
            ("192.0.2.1:8027", Some(false)),
            ("unix:serve.sock", None),
            ("localhost:8027", None),
            ("", None),
        ] {
            assert_eq!(Place::parse(text).ok().map(|place| place.is_local()), expected, "{text}");
        }
    }
}

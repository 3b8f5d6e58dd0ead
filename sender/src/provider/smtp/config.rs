//! The table `[smtp]`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mailroom_mail::{Error, ReturnPath, Secret};
use serde::Deserialize;

use super::auth::Credentials;
use super::tls::Tls;
use crate::rate::Rate;

/// The ports of RFC 8314 and RFC 6409.
const SUBMISSIONS: u16 = 465;
const SUBMISSION: u16 = 587;

/// The table as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SmtpConfig {
    /// The server's name or address.
    pub(super) server: String,
    /// Its port; 465, with STARTTLS or without encryption 587.
    port: Option<u16>,
    /// How the connection is encrypted.
    #[serde(default)]
    pub(super) tls: TlsMode,
    /// A file of certificates that are trusted instead of the system's.
    ca_file: Option<PathBuf>,
    /// Who authenticates.
    username: Option<String>,
    password_file: Option<PathBuf>,
    password_variable: Option<String>,
    /// Where bounces go, by an address for each recipient; to `from` unless given.
    return_path: Option<String>,
    return_path_secret_file: Option<PathBuf>,
    /// The name that the server is greeted with; that of this machine, or its address, unless
    /// given.
    pub(super) hello: Option<String>,
    /// How many mails it gets in a time; no limit unless given.
    pub(super) rate: Option<Rate>,
    /// Connections at a time, 1 to 64.
    #[serde(default = "four")]
    pub(super) connections: usize,
    /// Mails until a connection is closed and opened anew, 1 to 10000.
    #[serde(default = "hundred")]
    pub(super) mails_per_connection: u32,
    /// The time until the server asks for the content, from the look-up of its address on; in
    /// seconds, 1 to 300.
    #[serde(default = "twenty")]
    timeout_seconds: u64,
    /// The time for the answer to the final dot, in seconds, 1 to 3600. Whoever does not wait long
    /// enough sends mails twice (RFC 5321, 4.5.3.2.6).
    #[serde(default = "ten_minutes")]
    final_timeout_seconds: u64,
}

const fn four() -> usize {
    4
}

const fn hundred() -> u32 {
    100
}

const fn twenty() -> u64 {
    20
}

const fn ten_minutes() -> u64 {
    600
}

/// How the connection is encrypted. By default from its first byte on (RFC 8314): nothing that is
/// said in clear before can be changed by somebody on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TlsMode {
    #[default]
    Implicit,
    StartTls,
    None,
}

impl SmtpConfig {
    pub(crate) fn make_paths_relative_to(&mut self, folder: &Path) {
        for path in [&mut self.ca_file, &mut self.password_file, &mut self.return_path_secret_file]
            .into_iter()
            .flatten()
        {
            *path = folder.join(&*path);
        }
    }

    /// Whether every value is one that can be used.
    ///
    /// # Errors
    /// The first that is not.
    pub(super) fn check(&self) -> Result<(), Error> {
        let bounds = [
            ("connections", self.connections as u64, 64),
            ("mails_per_connection", self.mails_per_connection.into(), 10_000),
            ("timeout_seconds", self.timeout_seconds, 300),
            ("final_timeout_seconds", self.final_timeout_seconds, 3_600),
        ];
        for (name, value, most) in bounds {
            if !(1..=most).contains(&value) {
                return Err(Error::configuration(format!(
                    "[smtp] {name} must be from 1 to {most}"
                )));
            }
        }
        let is_word =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_word(&self.server) || !self.hello.as_deref().is_none_or(is_word) {
            return Err(Error::configuration(
                "[smtp] server and hello must be names or addresses in ASCII",
            ));
        }
        Ok(())
    }

    pub(super) fn port(&self) -> u16 {
        self.port.unwrap_or(if self.tls == TlsMode::Implicit { SUBMISSIONS } else { SUBMISSION })
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }

    pub(super) fn final_timeout(&self) -> Duration {
        Duration::from_secs(self.final_timeout_seconds)
    }

    pub(super) fn credentials(&self) -> Result<Option<Credentials>, Error> {
        let has_password = self.password_file.is_some() || self.password_variable.is_some();
        let Some(username) = &self.username else {
            return if has_password {
                Err(Error::configuration("[smtp] has a password and no username"))
            } else {
                Ok(None)
            };
        };
        let file = self.password_file.as_deref();
        let password = Secret::read("[smtp] password", file, self.password_variable.as_deref())?;
        if self.tls == TlsMode::None && !is_loopback(&self.server) {
            return Err(Error::configuration(
                "[smtp] sends no password without encryption: \
                 set tls to \"implicit\" or \"starttls\"",
            ));
        }
        Ok(Some(Credentials { username: username.clone(), password }))
    }

    pub(super) fn return_path(&self) -> Result<Option<ReturnPath>, Error> {
        match (&self.return_path, &self.return_path_secret_file) {
            (None, None) => Ok(None),
            (Some(address), Some(file)) => {
                let secret = Secret::read("[smtp] return_path_secret", Some(file), None)?;
                ReturnPath::new(address, secret.expose()).map(Some)
            }
            _ => Err(Error::configuration(
                "[smtp] needs both return_path and return_path_secret_file, or neither",
            )),
        }
    }

    pub(super) fn encryption(&self) -> Result<Option<Tls>, Error> {
        if self.tls == TlsMode::None {
            return Ok(None);
        }
        Tls::new(&self.server, self.ca_file.as_deref()).map(Some)
    }
}

fn is_loopback(server: &str) -> bool {
    server == "localhost" || server.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

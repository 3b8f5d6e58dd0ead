//! What is said on the command line of a broker: where it is, and who asks it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Error;

/// How the broker is reached.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Access {
    /// Name of the queue at the broker: of its stream, and the first word of its subjects
    #[arg(long, value_name = "NAME", default_value = "mailroom", value_parser = name)]
    pub(crate) queue: String,

    /// Name of a user of the broker
    #[arg(long, value_name = "NAME", requires = "password_file")]
    user: Option<String>,

    /// A file whose first line is the password
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,

    /// Certificates that are trusted, in PEM, instead of those of the system
    #[arg(long, value_name = "FILE")]
    authority: Option<PathBuf>,

    /// The certificate of this program, in PEM, if the broker asks for one
    #[arg(long, value_name = "FILE", requires = "private_key")]
    certificate: Option<PathBuf>,

    /// Its private key, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    private_key: Option<PathBuf>,

    /// Do without TLS though the broker is on another machine: whoever reads the network can use
    /// the links
    #[arg(long)]
    without_tls: bool,

    /// How many servers of the broker's cluster store each mail, when the queue is made [default:
    /// 1 with NATS; RabbitMQ decides it by itself]
    #[arg(long, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) replicas: Option<u8>,

    /// After how many seconds without a sign of life of a sender its mails go to another one, when
    /// the queue is made
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u16).range(2..=600))]
    redeliver_after: u16,
}

/// What can be said to `mailroom relay`.
#[derive(Clone, Debug, clap::Args)]
pub struct Relay {
    #[command(flatten)]
    pub(crate) broker: BrokerArguments,
}

/// A broker.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BrokerArguments {
    /// The broker: `tls://HOST:PORT` of NATS or `amqps://HOST:PORT/VHOST` of RabbitMQ, or
    /// `nats://127.0.0.1:PORT` and `amqp://127.0.0.1:PORT` on this machine; several of a cluster
    /// with commas between them
    #[arg(long, value_name = "URL")]
    pub(crate) to: String,

    #[command(flatten)]
    pub(crate) access: Access,
}

/// What can be said to `mailroom send` of a broker.
#[derive(Clone, Debug, clap::Args)]
pub struct Source {
    /// Take mails from a broker and not from standard input, until SIGTERM or SIGINT:
    /// `tls://HOST:PORT` of NATS or `amqps://HOST:PORT/VHOST` of RabbitMQ, or
    /// `nats://127.0.0.1:PORT` and `amqp://127.0.0.1:PORT` on this machine; several of a cluster
    /// with commas between them
    #[arg(long, value_name = "URL")]
    from: Option<String>,

    /// How many mails of priority 0, and how many others, are taken at a time
    #[arg(long, value_name = "COUNT", default_value_t = 32, requires = "from")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) in_flight: u16,

    #[command(flatten)]
    access: Access,
}

impl Source {
    /// The broker, if one is named.
    pub(crate) fn broker(&self) -> Option<BrokerArguments> {
        let to = self.from.clone()?;
        Some(BrokerArguments { to, access: self.access.clone() })
    }

    /// Whether a broker is named.
    pub fn is_given(&self) -> bool {
        self.from.is_some()
    }
}

fn name(text: &str) -> Result<String, &'static str> {
    let is_of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_name = (1..=32).contains(&text.len()) && text.bytes().all(is_of_name);
    is_name.then(|| text.to_owned()).ok_or("1 to 32 of a to z, 0 to 9 and -")
}

impl Access {
    /// After how long a mail goes to another sender.
    pub(crate) fn redeliver_after(&self) -> Duration {
        Duration::from_secs(self.redeliver_after.into())
    }
}

/// Whether a link can be read on its way to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Tls,
    Clear,
}

impl BrokerArguments {
    /// Whether it is RabbitMQ.
    pub(crate) fn is_amqp(&self) -> bool {
        self.to.starts_with("amqp://") || self.to.starts_with("amqps://")
    }

    /// The servers as they are written, of which none is named with a password.
    ///
    /// # Errors
    /// A password.
    pub(crate) fn urls(&self) -> Result<impl Iterator<Item = &str>, Error> {
        // Also without a name before it, or what is parsed could hide it.
        if self.to.contains('@') {
            let fault = "must have no password: name --user and --password-file";
            return Err(unusable_url(fault));
        }
        Ok(self.to.split(','))
    }

    /// Refuses a way to another machine on which everybody can read.
    ///
    /// # Errors
    /// No TLS to another machine.
    pub(crate) fn check_way(&self, host: &str, way: Way, scheme: &str) -> Result<(), Error> {
        let is_here = ["127.0.0.1", "::1", "[::1]", "localhost"].contains(&host);
        if way == Way::Tls || is_here || self.access.without_tls {
            return Ok(());
        }
        Err(unusable_url(&format!(
            "names another machine without TLS: write {scheme}:// or, where nobody can read the \
             network, add --without-tls"
        )))
    }
}

impl Access {
    /// The name of a user and its password.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn login(&self) -> Result<Option<(String, String)>, Error> {
        let (Some(user), Some(file)) = (&self.user, &self.password_file) else { return Ok(None) };
        let text = fs::read_to_string(file).map_err(|error| unreadable(file, &error))?;
        Ok(Some((user.clone(), text.lines().next().unwrap_or_default().to_owned())))
    }

    /// The file of the certificates that are trusted, which can be read.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn authority(&self) -> Result<Option<&Path>, Error> {
        let Some(file) = &self.authority else { return Ok(None) };
        fs::metadata(file).map_err(|error| unreadable(file, &error))?;
        Ok(Some(file))
    }

    /// The files of a certificate and of its private key, which can be read.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn identity(&self) -> Result<Option<(&Path, &Path)>, Error> {
        let (Some(certificate), Some(key)) = (&self.certificate, &self.private_key) else {
            return Ok(None);
        };
        for file in [certificate, key] {
            fs::metadata(file).map_err(|error| unreadable(file, &error))?;
        }
        Ok(Some((certificate, key)))
    }
}

/// Why a broker's URL cannot be used.
pub(crate) fn unusable_url(fault: &str) -> Error {
    Error::Usage(format!("the broker's URL {fault}"))
}

pub(crate) fn unreadable(file: &Path, error: &std::io::Error) -> Error {
    Error::Usage(format!("{} cannot be read: {error}", file.display()))
}

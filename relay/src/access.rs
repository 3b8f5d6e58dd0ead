//! What is said on the command line of a broker: where it is, and who asks it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::{ConnectOptions, ServerAddr};

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

    /// How many servers of the broker's cluster store each mail, when the queue is made
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) replicas: u8,

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
    /// The broker: `tls://HOST:PORT`, or `nats://127.0.0.1:PORT` on this machine; several of a
    /// cluster with commas between them
    #[arg(long, value_name = "URL")]
    to: String,

    #[command(flatten)]
    pub(crate) access: Access,
}

/// What can be said to `mailroom send` of a broker.
#[derive(Clone, Debug, clap::Args)]
pub struct Source {
    /// Take mails from a broker and not from standard input, until SIGTERM or SIGINT:
    /// `tls://HOST:PORT`, or `nats://127.0.0.1:PORT` on this machine; several of a cluster with
    /// commas between them
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

/// Where verdicts come from.
#[derive(Clone, Debug)]
pub struct VerdictsFrom {
    pub(crate) broker: BrokerArguments,
}

impl VerdictsFrom {
    /// Reads the URL of a broker, and what else can be said to `mailroom relay`.
    ///
    /// # Errors
    /// Other words, and URLs that cannot be used; what they are is not repeated.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        #[derive(clap::Parser)]
        struct Words {
            #[command(flatten)]
            broker: BrokerArguments,
        }
        let words = ["relay", "--to"].into_iter().chain(words.iter().map(String::as_str));
        let words = <Words as clap::Parser>::try_parse_from(words).map_err(
            |_| "must be the URL of a broker, and after it what else `mailroom relay` is given",
        )?;
        words.broker.servers().map_err(|error| format!("cannot be used: {error}"))?;
        Ok(Self { broker: words.broker })
    }

    /// The servers, of which none is named with a password.
    pub fn url(&self) -> &str {
        &self.broker.to
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

impl BrokerArguments {
    /// The servers, of which none is named with a password.
    ///
    /// # Errors
    /// What is no such URL, and no TLS to another machine.
    pub(crate) fn servers(&self) -> Result<Vec<ServerAddr>, Error> {
        let usage = |fault: &str| Error::Usage(format!("the broker's URL {fault}"));
        let mut servers = Vec::new();
        for url in self.to.split(',') {
            // Also without a name before it, or what is parsed could hide it.
            if url.contains('@') {
                return Err(usage("must have no password: name --user and --password-file"));
            }
            let server: ServerAddr = url
                .parse()
                .map_err(|_| usage("must be tls://HOST:PORT, or nats://127.0.0.1:PORT"))?;
            if !["nats", "tls"].contains(&server.scheme()) {
                return Err(usage("must begin with tls:// or nats://"));
            }
            let is_here = ["127.0.0.1", "::1", "[::1]", "localhost"].contains(&server.host());
            if server.scheme() == "nats" && !is_here && !self.access.without_tls {
                return Err(usage(
                    "names another machine without TLS: write tls:// or, where nobody can read \
                     the network, add --without-tls",
                ));
            }
            servers.push(server);
        }
        Ok(servers)
    }

    /// How a connection is made.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub(crate) fn options(&self) -> Result<ConnectOptions, Error> {
        let access = &self.access;
        // A server names others before anything is encrypted, and the client would connect to them
        // without TLS: whoever stands in between could name one of their own. All that may be
        // connected to are in the URL.
        let mut options = ConnectOptions::new().ignore_discovered_servers();
        if let (Some(user), Some(file)) = (&access.user, &access.password_file) {
            let text = fs::read_to_string(file).map_err(|error| unreadable(file, &error))?;
            let password = text.lines().next().unwrap_or_default().to_owned();
            options = options.user_and_password(user.clone(), password);
        }
        if let Some(file) = &access.authority {
            fs::metadata(file).map_err(|error| unreadable(file, &error))?;
            options = options.add_root_certificates(file.clone());
        }
        if let (Some(certificate), Some(key)) = (&access.certificate, &access.private_key) {
            for file in [certificate, key] {
                fs::metadata(file).map_err(|error| unreadable(file, &error))?;
            }
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        Ok(options)
    }
}

fn unreadable(file: &Path, error: &std::io::Error) -> Error {
    Error::Usage(format!("{} cannot be read: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        relay: Relay,
    }

    fn servers(url: &str, more: &[&str]) -> Result<usize, String> {
        let words = ["relay", "--to", url].into_iter().chain(more.iter().copied());
        let program = Program::try_parse_from(words).map_err(|error| error.to_string())?;
        let servers = program.relay.broker.servers().map_err(|error| error.to_string())?;
        Ok(servers.len())
    }

    #[test]
    fn a_link_goes_to_another_machine_by_tls_alone() {
        assert_eq!(servers("nats://127.0.0.1:4222", &[]), Ok(1));
        assert_eq!(servers("nats://localhost,nats://[::1]:4223", &[]), Ok(2));
        assert_eq!(servers("tls://broker.test", &[]), Ok(1));
        let error = servers("nats://broker.test", &[]).unwrap_err();
        assert!(error.contains("without TLS"), "{error}");
        assert!(servers("nats://127.0.0.1,nats://10.0.0.1", &[]).is_err());
        assert_eq!(servers("nats://10.0.0.1", &["--without-tls"]), Ok(1));
    }

    #[test]
    fn a_password_in_a_url_is_refused_and_not_repeated() {
        for url in ["tls://ada:secret@broker.test", "tls://secret@broker.test", "tls://:secret@b"] {
            let error = servers(url, &[]).unwrap_err();
            assert!(error.contains("--password-file") && !error.contains("secret"), "{error}");
        }
        let error = servers("http://ada:secret@broker.test", &[]).unwrap_err();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn verdicts_come_from_what_a_relay_is_given() {
        let from = |text: &str| {
            let words: Vec<_> = text.split(' ').map(str::to_owned).collect();
            VerdictsFrom::parse(&words)
                .map(|from| (from.url().to_owned(), from.broker.access.queue))
        };
        let tls = "tls://broker.test";
        assert_eq!(from(tls), Ok((tls.to_owned(), "mailroom".to_owned())));
        let named = from("tls://broker.test --queue shop --user a --password-file /dev/null");
        assert_eq!(named, Ok((tls.to_owned(), "shop".to_owned())));
        for text in ["", "tls://a:secret@b", "nats://b.test", "tls://b --secret", "tls://b secret"]
        {
            assert!(from(text).is_err_and(|error| !error.contains("secret")), "{text}");
        }
    }

    #[test]
    fn the_name_of_a_queue_is_a_word_of_a_subject() {
        for name in ["", "a.b", "a b", "*", "A", ">"] {
            assert!(servers("nats://127.0.0.1", &["--queue", name]).is_err(), "{name}");
        }
    }
}

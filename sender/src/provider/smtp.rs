//! Mail servers, by SMTP (RFC 5321).
//!
//! Commands are given one by one instead of by lettre's transport, because what an answer means depends on the command: before the
//! recipient it is about the server, afterwards about the mail, and after the content silence may mean that the mail was accepted.

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lettre::Address;
use lettre::transport::smtp;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{Certificate, CertificateStore, SmtpConnection, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail as MailFrom, Rcpt, Rset};
use lettre::transport::smtp::extension::{ClientId, Extension, MailParameter};
use serde::Deserialize;

use super::{About, Connection, Progress, Provider, Receipt, Sealed, Verdict};
use crate::error::Error;
use crate::mail::Mail;
use crate::message;
use crate::rate::Rate;
use crate::return_path::ReturnPath;
use crate::secret::Secret;

/// How long a connection may be unused. Common servers wait for five minutes; some proxies wait for one.
const LONGEST_IDLE: Duration = Duration::from_secs(30);

const PEM_BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// The table `[smtp]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SmtpConfig {
    /// The server's name or address.
    server: String,
    /// Its port; 587, with implicit TLS 465.
    port: Option<u16>,
    /// How the connection is encrypted.
    #[serde(default)]
    tls: TlsMode,
    /// A file of certificates that are trusted instead of the system's.
    ca_file: Option<PathBuf>,
    /// Who authenticates.
    username: Option<String>,
    password_file: Option<PathBuf>,
    password_variable: Option<String>,
    /// Where bounces go, by an address for each recipient; to `from` unless given.
    return_path: Option<String>,
    return_path_secret_file: Option<PathBuf>,
    /// The name that the server is greeted with; the address of this machine unless given.
    hello: Option<String>,
    /// How many mails it gets in a time; no limit unless given.
    rate: Option<Rate>,
    /// Connections at a time, 1 to 64.
    #[serde(default = "four")]
    connections: usize,
    /// Mails until a connection is closed and opened anew, 1 to 10000.
    #[serde(default = "hundred")]
    mails_per_connection: u32,
    /// The time that a mail may take, in seconds, 1 to 300.
    #[serde(default = "twenty")]
    timeout_seconds: u64,
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TlsMode {
    #[default]
    StartTls,
    Implicit,
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

    fn credentials(&self) -> Result<Option<Credentials>, Error> {
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
                "[smtp] sends no password without encryption: set tls to \"starttls\" or \"implicit\"",
            ));
        }
        Ok(Some(Credentials::new(username.clone(), password.expose().to_owned())))
    }

    fn return_path(&self) -> Result<Option<ReturnPath>, Error> {
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

    fn encryption(&self) -> Result<Option<TlsParameters>, Error> {
        if self.tls == TlsMode::None {
            return Ok(None);
        }
        let mut builder = TlsParameters::builder(self.server.clone());
        if let Some(file) = &self.ca_file {
            let unusable =
                |reason: String| Error::configuration(format!("[smtp] ca_file: {} {reason}", file.display()));
            let pem = fs::read(file).map_err(|error| unusable(format!("cannot be read: {error}")))?;
            // The parser takes text without any for an empty list, and then no server would be trusted.
            if !pem.windows(PEM_BEGIN.len()).any(|window| window == PEM_BEGIN) {
                return Err(unusable("holds no certificates".to_owned()));
            }
            let certificate =
                Certificate::from_pem(&pem).map_err(|_| unusable("holds no certificates".to_owned()))?;
            builder = builder.certificate_store(CertificateStore::None).add_root_certificate(certificate);
        }
        let parameters = builder.build_rustls();
        parameters
            .map(Some)
            .map_err(|error| Error::configuration(format!("[smtp] TLS cannot be used: {}", describe(&error))))
    }
}

fn is_loopback(server: &str) -> bool {
    server == "localhost" || server.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// A mail server.
pub(crate) struct Smtp {
    server: String,
    port: u16,
    mode: TlsMode,
    tls: Option<TlsParameters>,
    credentials: Option<Credentials>,
    return_path: Option<ReturnPath>,
    hello: ClientId,
    connections: usize,
    mails_per_connection: u32,
    timeout: Duration,
    rate: Option<Rate>,
}

impl Smtp {
    pub(crate) fn new(config: &SmtpConfig) -> Result<Self, Error> {
        let bounds = [
            ("connections", config.connections as u64, 64),
            ("mails_per_connection", config.mails_per_connection.into(), 10_000),
            ("timeout_seconds", config.timeout_seconds, 300),
        ];
        for (name, value, most) in bounds {
            if !(1..=most).contains(&value) {
                return Err(Error::configuration(format!("[smtp] {name} must be from 1 to {most}")));
            }
        }
        let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_word(&config.server) || !config.hello.as_deref().is_none_or(is_word) {
            return Err(Error::configuration("[smtp] server and hello must be names or addresses in ASCII"));
        }
        let default_port =
            if config.tls == TlsMode::Implicit { smtp::SUBMISSIONS_PORT } else { smtp::SUBMISSION_PORT };
        Ok(Self {
            server: config.server.clone(),
            port: config.port.unwrap_or(default_port),
            mode: config.tls,
            tls: config.encryption()?,
            credentials: config.credentials()?,
            return_path: config.return_path()?,
            hello: config.hello.clone().map_or_else(ClientId::default, ClientId::Domain),
            connections: config.connections,
            mails_per_connection: config.mails_per_connection,
            timeout: Duration::from_secs(config.timeout_seconds),
            rate: config.rate,
        })
    }

    /// Connects to the first of the addresses that answers. Each has its share of the time, so that a silent one leaves some to the next.
    fn connect(&self, addresses: &[SocketAddr], deadline: Instant) -> Result<SmtpConnection, String> {
        let implicit = self.tls.as_ref().filter(|_| self.mode == TlsMode::Implicit);
        let mut fault = "no address".to_owned();
        for (address, left) in addresses.iter().zip((1..=addresses.len()).rev()) {
            let share = remaining(deadline) / u32::try_from(left).unwrap_or(u32::MAX);
            match SmtpConnection::connect(address, Some(share), &self.hello, implicit, None) {
                Ok(connection) => return Ok(connection),
                Err(error) => fault = describe(&error),
            }
        }
        Err(fault)
    }

    /// Connects, encrypts and authenticates.
    fn open(&self, deadline: Instant) -> Result<SmtpConnection, String> {
        let place = format!("{}:{}", self.server, self.port);
        let failed = |what: &str, error: &smtp::Error| format!("{place}: {what}: {}", describe(error));
        let addresses = (self.server.as_str(), self.port).to_socket_addrs();
        let addresses: Vec<_> = addresses.map_err(|error| format!("{place}: no address: {error}"))?.collect();
        let mut connection =
            self.connect(&addresses, deadline).map_err(|fault| format!("{place}: no connection: {fault}"))?;
        if let (TlsMode::StartTls, Some(tls)) = (self.mode, &self.tls) {
            if !connection.can_starttls() {
                connection.abort();
                return Err(format!("{place}: the server offers no STARTTLS"));
            }
            set_timeout(&mut connection, deadline);
            connection.starttls(tls, &self.hello).map_err(|error| failed("STARTTLS failed", &error))?;
        }
        if let Some(credentials) = &self.credentials {
            set_timeout(&mut connection, deadline);
            connection
                .auth(DEFAULT_MECHANISMS, credentials)
                .map_err(|error| failed("the login is refused", &error))?;
        }
        Ok(connection)
    }
}

impl Provider for Smtp {
    fn name(&self) -> &'static str {
        "smtp"
    }

    fn payload(&self, mail: &Mail) -> Result<String, String> {
        Ok(message::encode(mail))
    }

    fn envelope_sender(&self, mail: &Mail) -> Option<String> {
        self.return_path.as_ref().map(|path| path.of(mail.to.address().as_ref()))
    }

    fn connections(&self) -> usize {
        self.connections
    }

    fn rate(&self) -> Option<Rate> {
        self.rate
    }

    fn connection(&self) -> Box<dyn Connection + '_> {
        Box::new(Session { smtp: self, open: None })
    }

    fn check(&self) -> Result<(), String> {
        let mut connection = self.open(Instant::now() + self.timeout)?;
        // Whether the server says goodbye is of no interest.
        connection.quit().ok();
        Ok(())
    }
}

/// One connection, which outlives mails.
struct Session<'a> {
    smtp: &'a Smtp,
    open: Option<Open>,
}

struct Open {
    connection: SmtpConnection,
    mails: u32,
    last_used: Instant,
}

/// What is known after a command of a mail.
enum Failure {
    /// The connection had ended before this mail, which no server has seen: another one may be tried at once.
    Stale(String),
    /// It is over, with this verdict; the connection can be used if this is set.
    Verdict(Verdict, bool),
}

impl Connection for Session<'_> {
    fn deliver(&mut self, sealed: &Sealed, payload: &str, progress: &dyn Progress) -> Verdict {
        let deadline = Instant::now() + self.smtp.timeout;
        loop {
            let mut open = match self.open.take().filter(Open::is_fresh) {
                Some(open) => open,
                None => match self.smtp.open(deadline) {
                    Ok(connection) => Open { connection, mails: 0, last_used: Instant::now() },
                    Err(reason) => return Verdict::Unavailable { after: None, reason },
                },
            };
            let (from, to) = (&sealed.envelope_sender, &sealed.to);
            let outcome = open.send(from, to, payload, progress, deadline);
            open.mails += 1;
            open.last_used = Instant::now();
            let (verdict, is_usable) = match outcome {
                Ok(receipt) => (Verdict::Sent(receipt), true),
                Err(Failure::Stale(_)) if open.mails > 1 => continue,
                Err(Failure::Stale(reason)) => (Verdict::Unavailable { after: None, reason }, false),
                Err(Failure::Verdict(verdict, is_usable)) => (verdict, is_usable),
            };
            if is_usable && open.mails < self.smtp.mails_per_connection {
                self.open = Some(open);
            } else {
                open.connection.abort();
            }
            return verdict;
        }
    }

    fn idle(&mut self) {
        if let Some(mut open) = self.open.take_if(|open| !open.is_fresh()) {
            open.connection.abort();
        }
    }
}

impl Open {
    fn is_fresh(&self) -> bool {
        self.last_used.elapsed() < LONGEST_IDLE && !self.connection.has_broken()
    }

    fn send(
        &mut self,
        from: &str,
        to: &str,
        payload: &str,
        progress: &dyn Progress,
        deadline: Instant,
    ) -> Result<Receipt, Failure> {
        let about = About::Recipient { is_unknown: false };
        let dead = |reason: &str| Failure::Verdict(Verdict::dead(reason, about), true);
        let address =
            |text: &str| text.parse::<Address>().map_err(|_| dead("its address cannot be written in SMTP"));
        let (from, recipient) = (address(from)?, address(to)?);
        let mut parameters = Vec::new();
        if !to.is_ascii() {
            if !self.connection.server_info().supports_feature(Extension::SmtpUtfEight) {
                return Err(dead("its address is not ASCII, which the server does not take"));
            }
            parameters.push(MailParameter::SmtpUtfEight);
        }
        set_timeout(&mut self.connection, deadline);
        let answer = self.connection.command(MailFrom::new(Some(from), parameters));
        answer.map_err(|error| of_server("MAIL FROM", &error))?;
        set_timeout(&mut self.connection, deadline);
        let answer = self.connection.command(Rcpt::new(recipient, Vec::new()));
        answer.map_err(|error| self.of_mail("RCPT TO", about, &error))?;
        set_timeout(&mut self.connection, deadline);
        let answer =
            self.connection.command(Data).map_err(|error| self.of_mail("DATA", About::Unplaced, &error))?;
        if !answer.has_code(354) {
            return Err(out_of_step("DATA"));
        }
        progress
            .enter_doubt()
            .map_err(|reason| Failure::Verdict(Verdict::Unavailable { after: None, reason }, false))?;
        set_timeout(&mut self.connection, deadline);
        let answer = self.connection.command(Content(payload));
        let answer = answer.map_err(|error| {
            if error.status().is_some() {
                return self.of_mail("the content", About::Content, &error);
            }
            // The server may have accepted it.
            let reason = format!("no answer to the content: {}", describe(&error));
            Failure::Verdict(Verdict::InDoubt { reason }, false)
        })?;
        // 354 and 251 are positive, too.
        if !answer.has_code(250) {
            return Err(out_of_step("the content"));
        }
        let words = answer.message().flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ");
        Ok(Receipt { message_id: None, answer: format!("250 {words}").trim_end().to_owned() })
    }

    /// The verdict of an answer to a command that is about the mail. The server must forget the mail before the next one.
    fn of_mail(&mut self, command: &str, about: About, error: &smtp::Error) -> Failure {
        let Some(code) = error.status().map(u16::from) else {
            let reason = format!("{command}: {}", describe(error));
            return Failure::Verdict(Verdict::Unavailable { after: None, reason }, false);
        };
        let reason = describe(error);
        if code == 421 {
            return Failure::Verdict(Verdict::Unavailable { after: None, reason }, false);
        }
        let is_usable = self.connection.command(Rset).is_ok();
        let verdict =
            if code >= 500 { Verdict::dead(reason, about) } else { Verdict::Retry { after: None, reason } };
        Failure::Verdict(verdict, is_usable)
    }
}

/// The text of a mail as the server reads it: without lines that would end it, and then its end.
///
/// lettre writes the end on its own (0.11.23), without `TCP_NODELAY`, so that it waits for the server's delayed acknowledgement of
/// the text: 40 ms a mail. What is given as a command is written at once.
struct Content<'a>(&'a str);

impl fmt::Display for Content<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // RFC 5321, 4.5.2: a dot at the beginning of a line gets another one.
        let first = if self.0.starts_with('.') { "." } else { "" };
        write!(f, "{first}{}\r\n.\r\n", self.0.replace("\r\n.", "\r\n.."))
    }
}

/// The verdict of an answer to a command that is about the server: no other mail would fare better.
fn of_server(command: &str, error: &smtp::Error) -> Failure {
    let reason = format!("{command}: {}", describe(error));
    match error.status().map(u16::from) {
        None | Some(421) => Failure::Stale(reason),
        Some(_) => Failure::Verdict(Verdict::Unavailable { after: None, reason }, false),
    }
}

/// Answers that do not belong to their commands: nothing is known of the mail, and nothing of what comes next.
fn out_of_step(command: &str) -> Failure {
    let reason = format!("the server's answer to {command} is not one of that command");
    Failure::Verdict(Verdict::InDoubt { reason }, false)
}

fn remaining(deadline: Instant) -> Duration {
    // A timeout of zero would be none.
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

fn set_timeout(connection: &mut SmtpConnection, deadline: Instant) {
    // If it cannot be set, the connection is broken, which the command finds.
    connection.set_timeout(Some(remaining(deadline))).ok();
}

/// An error in one line, without the words of the library around what the server or the system says.
fn describe(error: &smtp::Error) -> String {
    let mut text = error.status().map(|code| format!("{code} ")).unwrap_or_default();
    let mut last: &dyn std::error::Error = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    // What a read ends with after the timeout depends on the system.
    let is_timeout = last
        .downcast_ref::<io::Error>()
        .is_some_and(|error| matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock));
    if is_timeout {
        return "no answer in time".to_owned();
    }
    text.push_str(&last.to_string());
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn an_address_that_is_silent_leaves_time_to_the_next() {
        let [silent, good] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = [silent.local_addr().unwrap(), good.local_addr().unwrap()];
        let server = thread::spawn(move || {
            let (mut stream, _) = good.accept().unwrap();
            stream.write_all(b"220 mail.example\r\n").unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            stream.write_all(b"250 mail.example\r\n").unwrap();
            line
        });
        let config = basic_toml::from_str("server = \"127.0.0.1\"\ntls = \"none\"").unwrap();
        let smtp = Smtp::new(&config).unwrap();
        let start = Instant::now();
        let mut connection = smtp.connect(&addresses, start + Duration::from_secs(8)).unwrap();
        assert!(start.elapsed() >= Duration::from_secs(4));
        connection.abort();
        assert!(server.join().unwrap().starts_with("EHLO "));
        let silent = smtp.connect(&addresses[..1], Instant::now() + Duration::from_millis(100));
        assert!(silent.is_err());
    }

    #[test]
    fn no_line_of_a_mail_ends_it() {
        for (text, expected) in [
            ("", "\r\n.\r\n"),
            ("a\r\n", "a\r\n\r\n.\r\n"),
            (".", "..\r\n.\r\n"),
            (".\r\n.\r\n..\r\na.", "..\r\n..\r\n...\r\na.\r\n.\r\n"),
            ("a\r\r\n.\r\nQUIT\r\n", "a\r\r\n..\r\nQUIT\r\n\r\n.\r\n"),
        ] {
            assert_eq!(Content(text).to_string(), expected, "{text:?}");
        }
    }
}

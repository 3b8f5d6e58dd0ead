//! The way to a mail server: its addresses, a connection, encryption, greeting and login.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use super::auth::{self, Credentials};
use super::config::TlsMode;
use super::dialogue::{Dialogue, Greeted, Ungreeted};
use super::gate::{Change, Closed};
use super::stream::{Lost, Stream};
use super::{Smtp, hello, tls};
use crate::standard_error::report;

/// The longest time for a connection to one address.
const MAX_CONNECT: Duration = Duration::from_secs(30);

impl Smtp {
    /// Connects, encrypts and authenticates.
    ///
    /// # Errors
    /// Why no mail can go out.
    pub(super) fn open(&self, deadline: Instant) -> Result<Dialogue, Unopened> {
        self.begin(deadline).map_err(|unopened| {
            let reason = format!("{}: {}", self.place(), unopened.reason);
            Unopened { reason, ..unopened }
        })
    }

    fn place(&self) -> String {
        format!("{}:{}", self.server, self.port)
    }

    fn begin(&self, deadline: Instant) -> Result<Dialogue, Unopened> {
        if self.credentials.is_some() {
            self.gate.check(Instant::now())?;
        }
        let addresses = look_up(&self.server, self.port, deadline)?;
        let connected = self.connect(&addresses, deadline);
        let mut dialogue =
            connected.map_err(|unopened| Unopened { is_of_connection: true, ..unopened })?;
        if self.mode == TlsMode::StartTls {
            dialogue = self.start_tls(dialogue, deadline)?;
        }
        if let Some(credentials) = &self.credentials {
            self.log_in(credentials, &mut dialogue, deadline)?;
        }
        Ok(dialogue)
    }

    /// Authenticates, unless the server has refused that lately.
    fn log_in(
        &self,
        credentials: &Credentials,
        dialogue: &mut Dialogue,
        deadline: Instant,
    ) -> Result<(), Unopened> {
        let pass = self.gate.enter(deadline)?;
        let offers = dialogue.offers.clone();
        let outcome =
            auth::authenticate(credentials, &offers, &mut |line| dialogue.command(line, deadline));
        let change = pass.end(&outcome, Instant::now());
        if change == Change::Accepted {
            report(&format!("{} takes the login again", self.place()));
        }
        outcome.map_err(|failure| {
            let closed = self.gate.check(Instant::now()).err().map(Unopened::from);
            let after = closed.and_then(|closed| closed.after);
            Unopened {
                after,
                reason: failure.reason,
                is_newly_refused: change == Change::Refused,
                is_of_connection: false,
                is_of_others: false,
            }
        })
    }

    /// Says once what to do where the login is refused.
    pub(super) fn report_refusal(&self, unopened: &Unopened) {
        if unopened.is_newly_refused {
            report(&format!(
                "{} refuses the username or the password of [smtp]; correct them and restart the \
                 collector: no mail goes out until then, none is lost, and the login is tried \
                 again after a minute, doubling to ten minutes, so that the account is not locked",
                self.place()
            ));
        }
    }

    /// Connects to the first of the addresses that answers. Each has its share of the time, so that
    /// a silent one leaves some to the next.
    pub(super) fn connect(
        &self,
        addresses: &[SocketAddr],
        deadline: Instant,
    ) -> Result<Dialogue, Unopened> {
        let mut fault = Unopened::from("no address".to_owned());
        for (address, left) in addresses.iter().zip((1..=addresses.len()).rev()) {
            let share = deadline.saturating_duration_since(Instant::now())
                / u32::try_from(left).unwrap_or(u32::MAX);
            match self.greet(address, share.min(MAX_CONNECT), Instant::now() + share) {
                Ok(dialogue) => return Ok(dialogue),
                Err(unopened) => fault = unopened,
            }
        }
        Err(Unopened { reason: format!("no connection: {}", fault.reason), ..fault })
    }

    fn greet(
        &self,
        address: &SocketAddr,
        patience: Duration,
        deadline: Instant,
    ) -> Result<Dialogue, Unopened> {
        let (mut dialogue, name) = self.reach(address, patience, deadline)?;
        let Err(reason) = dialogue.hello(&name, deadline) else { return Ok(dialogue) };
        // One that ends the connection over EHLO may know HELO, after which there is neither
        // STARTTLS nor a login.
        let needs_offers = self.mode == TlsMode::StartTls || self.credentials.is_some();
        if dialogue.greeted != Greeted::Cut || needs_offers {
            return Err(reason.into());
        }
        let (mut dialogue, name) = self.reach(address, patience, deadline)?;
        dialogue.helo(&name, deadline).map_err(|_| reason)?;
        Ok(dialogue)
    }

    /// Connects, encrypts and waits to be greeted. Returns the name to greet with, too.
    fn reach(
        &self,
        address: &SocketAddr,
        patience: Duration,
        deadline: Instant,
    ) -> Result<(Dialogue, String), Unopened> {
        let mut stream = Stream::connect(address, patience).map_err(|lost| match lost {
            Lost::Late => "no answer in time".to_owned(),
            Lost::Broken(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                "no mail server listens there; `server` and `port` of [smtp] name it".to_owned()
            }
            lost => lost.to_string(),
        })?;
        let (own, _) = stream.ends().map_err(|error| error.to_string())?;
        let name = self.hello.clone().unwrap_or_else(|| hello::name(own));
        if let (TlsMode::Implicit, Some(tls)) = (self.mode, &self.tls) {
            stream = stream.encrypt(tls, deadline).map_err(|lost| match lost {
                Lost::OutOfStep => format!("TLS failed: {}", tls::NO_TLS),
                lost => format!("TLS failed: {lost}"),
            })?;
        }
        let mut dialogue = Dialogue::new(stream);
        dialogue.greeting(deadline)?;
        Ok((dialogue, name))
    }

    /// Encrypts by STARTTLS (RFC 3207). What was said before is forgotten.
    fn start_tls(&self, mut dialogue: Dialogue, deadline: Instant) -> Result<Dialogue, String> {
        if !dialogue.offers.starttls {
            dialogue.quit();
            return Err(
                "the server offers no STARTTLS, and nothing is sent without encryption; many \
                 servers have implicit TLS on port 465, for which tls = \"implicit\" is"
                    .to_owned(),
            );
        }
        let tls = self.tls.as_ref().ok_or("STARTTLS has no settings")?;
        let reply = dialogue.command("STARTTLS", deadline).map_err(|lost| match lost {
            Lost::OutOfStep => INJECTED.to_owned(),
            lost => format!("STARTTLS failed: {lost}"),
        })?;
        if !reply.is_ready() {
            return Err(format!("STARTTLS failed: {reply}"));
        }
        let name = dialogue.name.clone();
        let stream = dialogue.into_stream().encrypt(tls, deadline).map_err(|lost| match lost {
            Lost::OutOfStep => INJECTED.to_owned(),
            lost => format!("STARTTLS failed: {lost}"),
        })?;
        let mut dialogue = Dialogue::new(stream);
        dialogue.hello(&name, deadline)?;
        Ok(dialogue)
    }
}

/// Why there is no connection to the server.
#[derive(Debug)]
pub(super) struct Unopened {
    /// How long none is to be opened.
    pub(super) after: Option<Duration>,
    pub(super) reason: String,
    /// Whether the server refuses the login, and did not do so before.
    is_newly_refused: bool,
    /// Whether there was no connection, or none that the server greets.
    pub(super) is_of_connection: bool,
    /// Whether the server says that there are too many connections.
    pub(super) is_of_others: bool,
}

impl From<String> for Unopened {
    fn from(reason: String) -> Self {
        Self {
            after: None,
            reason,
            is_newly_refused: false,
            is_of_connection: false,
            is_of_others: false,
        }
    }
}

impl From<Ungreeted> for Unopened {
    fn from(Ungreeted { reason, is_of_others }: Ungreeted) -> Self {
        Self { is_of_others, ..reason.into() }
    }
}

impl From<Closed> for Unopened {
    fn from(closed: Closed) -> Self {
        match closed {
            Closed::Refused(reason, left) => {
                let reason = format!("not tried again yet: {reason}");
                Self { after: Some(left), ..reason.into() }
            }
            Closed::Late => "another connection waits for the login".to_owned().into(),
        }
    }
}

/// Replies in clear would be taken for those of the encrypted session.
const INJECTED: &str = "STARTTLS failed: something follows the server's reply without encryption; \
                        somebody on the way may be trying to forge the server's answers, so \
                        nothing was sent; with tls = \"implicit\" that is impossible";

/// The server's addresses. The look-up of the system has no limit, so it is left alone after one.
fn look_up(server: &str, port: u16, deadline: Instant) -> Result<Vec<SocketAddr>, String> {
    if let Ok(address) = server.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (found, receiver) = channel();
    let name = server.to_owned();
    thread::spawn(move || {
        let addresses = (name.as_str(), port).to_socket_addrs().map(Iterator::collect);
        found.send(addresses).ok();
    });
    let addresses: Vec<SocketAddr> = receiver
        .recv_timeout(deadline.saturating_duration_since(Instant::now()))
        .map_err(|_| "no address: the look-up of the name gets no answer in time".to_owned())?
        .map_err(|error| format!("no address: {error}"))?;
    if addresses.is_empty() { Err("no address".to_owned()) } else { Ok(addresses) }
}

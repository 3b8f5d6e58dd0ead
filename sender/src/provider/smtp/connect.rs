//! The way to a mail server: its addresses, a connection, encryption, greeting and login.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use super::auth;
use super::config::TlsMode;
use super::dialogue::Dialogue;
use super::stream::{Lost, Stream};
use super::{Smtp, hello, tls};

/// The longest time for a connection to one address.
const LONGEST_CONNECT: Duration = Duration::from_secs(30);

impl Smtp {
    /// Connects, encrypts and authenticates.
    ///
    /// # Errors
    /// Why no mail can go out.
    pub(super) fn open(&self, deadline: Instant) -> Result<Dialogue, String> {
        let place = format!("{}:{}", self.server, self.port);
        self.begin(deadline).map_err(|reason| format!("{place}: {reason}"))
    }

    fn begin(&self, deadline: Instant) -> Result<Dialogue, String> {
        let addresses = look_up(&self.server, self.port, deadline)?;
        let mut dialogue = self.connect(&addresses, deadline)?;
        if self.mode == TlsMode::StartTls {
            dialogue = self.start_tls(dialogue, deadline)?;
        }
        if let Some(credentials) = &self.credentials {
            let offers = dialogue.offers.clone();
            auth::authenticate(credentials, &offers, &mut |line| dialogue.command(line, deadline))?;
        }
        Ok(dialogue)
    }

    /// Connects to the first of the addresses that answers. Each has its share of the time, so that
    /// a silent one leaves some to the next.
    pub(super) fn connect(
        &self,
        addresses: &[SocketAddr],
        deadline: Instant,
    ) -> Result<Dialogue, String> {
        let mut fault = "no address".to_owned();
        for (address, left) in addresses.iter().zip((1..=addresses.len()).rev()) {
            let share = deadline.saturating_duration_since(Instant::now())
                / u32::try_from(left).unwrap_or(u32::MAX);
            match self.greet(address, share.min(LONGEST_CONNECT), Instant::now() + share) {
                Ok(dialogue) => return Ok(dialogue),
                Err(reason) => fault = reason,
            }
        }
        Err(format!("no connection: {fault}"))
    }

    fn greet(
        &self,
        address: &SocketAddr,
        patience: Duration,
        deadline: Instant,
    ) -> Result<Dialogue, String> {
        let mut stream = Stream::connect(address, patience).map_err(|lost| match lost {
            Lost::Late => "no answer in time".to_owned(),
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
        dialogue.hello(&name, deadline)?;
        Ok(dialogue)
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
        if !reply.is_positive() {
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

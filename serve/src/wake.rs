//! Wakes collectors that have no session with the database while they have nothing to do
//! (`MAILROOM_WAKE=call`), by `POST /wake` where they serve their metrics.
//!
//! A call carries nothing and asks for nothing: the collector looks at the queue. One that is lost
//! costs time, and no mail, because collectors also poll.

use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mailroom_pace::{LogLimit, withheld};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The longest time that a collector takes to hear it.
const CALL: Duration = Duration::from_secs(5);

/// So much of an answer is read: its first line is shorter.
const STATUS_LINE: usize = 64;

/// Where a collector is called.
#[derive(Clone, Debug)]
pub(crate) struct CollectorAddress {
    host: String,
    port: u16,
}

impl CollectorAddress {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let (host, port) = text.rsplit_once(':').unwrap_or(("127.0.0.1", text));
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_host = !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte));
        let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        match port.parse() {
            Ok(port) if is_host && is_port && port > 0 => Ok(Self { host: host.to_owned(), port }),
            _ => Err("write HOST:PORT, or PORT at 127.0.0.1, as MAILROOM_METRICS_ADDRESS has it"),
        }
    }

    /// Calls it.
    async fn call(&self) -> Result<(), Error> {
        let call = async {
            let mut stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            // A fixed host: the collector reads none, and no proxy is between.
            let request = b"POST /wake HTTP/1.1\r\nhost: collector\r\ncontent-length: 0\r\n\
                            connection: close\r\n\r\n";
            stream.write_all(request).await?;
            let mut answer = Vec::with_capacity(STATUS_LINE);
            stream.take(STATUS_LINE as u64).read_to_end(&mut answer).await?;
            if answer.starts_with(b"HTTP/1.1 202 ") {
                Ok(())
            } else {
                let what = "what listens there is no collector with MAILROOM_WAKE=call";
                Err(Error::new(ErrorKind::InvalidData, what))
            }
        };
        timeout(CALL, call).await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
    }
}

/// The collectors that are called.
#[derive(Debug, Default)]
pub(crate) struct Collectors {
    /// Each with whether there is something to send since its last call began.
    all: Vec<(CollectorAddress, Notify)>,
    failures: LogLimit,
}

impl Collectors {
    pub(crate) fn new(addresses: Vec<CollectorAddress>) -> Self {
        let all = addresses.into_iter().map(|address| (address, Notify::new())).collect();
        Self { all, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Calls all of them at once, and returns how many have heard it.
    pub(crate) async fn wake(&self) -> usize {
        let mut calls = JoinSet::new();
        for (address, _) in &self.all {
            let address = address.clone();
            calls.spawn(async move { (address.call().await, address) });
        }
        let mut woken = 0;
        while let Some(called) = calls.join_next().await {
            match called {
                Ok((Ok(()), _)) => woken += 1,
                Ok((Err(error), address)) => self.log(&address, &error),
                Err(_) => {}
            }
        }
        woken
    }

    /// Has all of them called soon; nobody waits for it.
    pub(crate) fn wake_soon(&self) {
        self.all.iter().for_each(|(_, has_mails)| has_mails.notify_one());
    }

    /// Calls each for ever, once for all that has come meanwhile. One that does not answer keeps no
    /// other waiting.
    pub(crate) fn keep_waking(self: &Arc<Self>) {
        for place in 0..self.all.len() {
            let collectors = Arc::clone(self);
            tokio::spawn(async move {
                let (address, has_mails) = &collectors.all[place];
                loop {
                    has_mails.notified().await;
                    if let Err(error) = address.call().await {
                        collectors.log(address, &error);
                    }
                }
            });
        }
    }

    fn log(&self, CollectorAddress { host, port }: &CollectorAddress, reason: &Error) {
        if let Some(others) = self.failures.admit(Instant::now()) {
            tracing::warn!(
                event = "collector_not_woken",
                collector = format!("{host}:{port}"),
                %reason,
                withheld = withheld(others),
                "a collector was not woken: it looks at the queue when its poll interval is over"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_named_by_host_and_port() {
        for (text, expected) in [
            ("9187", Some(("127.0.0.1", 9187))),
            ("collector:9187", Some(("collector", 9187))),
            ("10.0.0.7:9187", Some(("10.0.0.7", 9187))),
            ("[fd00::7]:9187", Some(("fd00::7", 9187))),
            ("collector", None),
            ("collector:", None),
            (":9187", None),
            ("collector:+1", None),
            ("collector:0", None),
            ("collector:65536", None),
            ("http://collector:9187", None),
            ("a b:9187", None),
            ("", None),
        ] {
            let parsed = CollectorAddress::parse(text).ok();
            let parsed = parsed.as_ref().map(|address| (address.host.as_str(), address.port));
            assert_eq!(parsed, expected, "{text}");
        }
    }
}

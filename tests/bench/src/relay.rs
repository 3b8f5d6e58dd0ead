//! What a broker buys: the same mails from the same queue by one sender, by four machines with a
//! collector and a sender each, and by a relay, `JetStream` and four senders.
//!
//! A round is a refilled queue, from the start of its collectors until each mail is recorded as
//! sent. The machines are processes of this one; those that are elsewhere reach what is not beside
//! them by a proxy that keeps each byte for the latency. The contestants take turns, and mail to
//! Postfix' `smtp-sink`, which takes everything.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mailroom_tests::broker::Nats;
use mailroom_tests::collector::{Collector, command};
use mailroom_tests::postgres::Cluster;
use mailroom_tests::program;
use mailroom_tests::proxy::Distance;
use mailroom_tests::sending::{Configuration, Sending};
use serde_json::json;

use crate::queue::{Kind, Queue};
use crate::report::{Report, Table, median, per_second};
use crate::sink::Sink;

/// How many machines send, where several do.
const MACHINES: u32 = 4;

/// How many connections there are to the mail server, of all machines together.
const CONNECTIONS: u32 = 16;

#[derive(clap::Args)]
pub(crate) struct Relay {
    /// How many tokens wait
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    tokens: u32,

    /// How many rounds there are of each contestant; they take turns
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,

    /// How far away the other machines are, one way
    #[arg(long, value_name = "MS,…", value_delimiter = ',', default_values_t = [0, 1, 20])]
    latency: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// One sender beside the database; the mail server is elsewhere.
    Direct,
    /// A collector and a sender on each machine, beside the mail server; the database is elsewhere.
    Collectors,
    /// A collector and a relay beside database and broker; senders beside the mail server.
    Broker,
}

const WAYS: [Way; 3] = [Way::Direct, Way::Collectors, Way::Broker];

impl fmt::Display for Way {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct => formatter.write_str("one sender, far from the mail server"),
            Self::Collectors => write!(formatter, "{MACHINES} collectors, far from the database"),
            Self::Broker => write!(formatter, "JetStream, {MACHINES} senders far from it"),
        }
    }
}

/// The rounds of one contestant, in tokens per second.
struct Figures {
    way: Way,
    latency: u64,
    rates: Vec<u32>,
}

pub(crate) async fn measure(server: &Cluster, options: &Relay) -> Result<Report> {
    let &Relay { tokens, rounds, ref latency } = options;
    ensure!(tokens > 0 && rounds > 0, "--tokens, --rounds: at least one is needed");
    let sink = Sink::start()?;
    eprintln!("making {tokens} tokens ...");
    let queue = Queue::create(server, Kind::Deliveries, tokens).await?;
    let mut all = Vec::new();
    for &latency in latency {
        for way in WAYS {
            all.push(Figures { way, latency, rates: Vec::new() });
        }
    }
    for round in 1..=rounds {
        for figures in &mut all {
            let rate = figures.run(server, &queue, tokens, sink.port).await?;
            let Figures { way, latency, .. } = figures;
            eprintln!("round {round} of {rounds}, {latency} ms, {way}: {rate}/s");
        }
    }

    let title = format!("{tokens} tokens sent, tokens/s, median of {rounds} rounds");
    let columns: Vec<String> = latency.iter().map(|latency| format!("{latency} ms")).collect();
    let columns: Vec<&dyn fmt::Display> = columns.iter().map(|column| column as _).collect();
    let mut table = Table::new(&title, &columns);
    let mut json = json!({ "tokens": tokens, "rounds": rounds });
    for way in WAYS {
        let of_way = all.iter().filter(|figures| figures.way == way);
        let rates: Vec<u32> = of_way.map(|figures| median(&figures.rates)).collect();
        let cells: Vec<&dyn fmt::Display> = rates.iter().map(|rate| rate as _).collect();
        table.row(&way.to_string(), &cells);
        for (latency, rate) in latency.iter().zip(&rates) {
            json[way.to_string()][format!("{latency}_ms")] = json!(rate);
        }
    }
    Ok(Report { table, json })
}

/// What runs in a round. It ends with this value.
#[derive(Default)]
struct Site {
    distances: Vec<Distance>,
    configurations: Vec<Configuration>,
    senders: Vec<Sending>,
    collectors: Vec<Collector>,
    broker: Option<Nats>,
}

impl Site {
    /// The port by which another machine reaches one of here.
    fn far_port(&mut self, port: u16, latency: u64) -> Result<u16> {
        if latency == 0 {
            return Ok(port);
        }
        let distance = Distance::start(port, Duration::from_millis(latency))?;
        let port = distance.port();
        self.distances.push(distance);
        Ok(port)
    }

    /// A configuration of `mailroom send` with so many connections.
    fn configure(&mut self, mail_server: u16, connections: u32) -> Result<&Configuration> {
        let further = format!("connections = {connections}");
        self.configurations.push(Configuration::smtp(mail_server, &further)?);
        self.configurations.last().context("it was added")
    }

    /// `mailroom send` as a sender of a collector.
    fn sender(&mut self, mail_server: u16, connections: u32) -> Result<String> {
        let file = self.configure(mail_server, connections)?.file();
        Ok(format!("'{}' send --config '{}'", program::path()?, file.display()))
    }

    fn collect(&mut self, database_url: &str, sender: &str, further: &[&str]) -> Result<()> {
        let mut command = command(database_url)?;
        // The last tokens do not wait for others that would fill their batch.
        command.args(["--batch-limit", "100", "--batch-timeout", "0", "--sender", sender]);
        self.collectors.push(Collector::start(command.args(further))?);
        Ok(())
    }
}

impl Figures {
    async fn run(
        &mut self,
        server: &Cluster,
        queue: &Queue,
        tokens: u32,
        mail_server: u16,
    ) -> Result<u32> {
        queue.refill().await?;
        let (latency, mut site) = (self.latency, Site::default());
        let each = CONNECTIONS / MACHINES;
        let started = match self.way {
            Way::Direct => {
                let mail_server = site.far_port(mail_server, latency)?;
                let sender = site.sender(mail_server, CONNECTIONS)?;
                let started = Instant::now();
                site.collect(queue.url(), &sender, &[])?;
                started
            }
            Way::Collectors => {
                let port = site.far_port(server.port(), latency)?;
                let url = queue.url_by(port);
                let senders = (0..MACHINES).map(|_| site.sender(mail_server, each));
                let senders: Vec<String> = senders.collect::<Result<_>>()?;
                let started = Instant::now();
                for sender in &senders {
                    site.collect(&url, sender, &[])?;
                }
                started
            }
            Way::Broker => {
                let broker = Nats::start(&[])?.context("nats-server is missing")?;
                let near = broker.url();
                let port = site.far_port(broker.port(), latency)?;
                site.broker = Some(broker);
                let far = format!("nats://127.0.0.1:{port}");
                for _ in 0..MACHINES {
                    let configuration = site.configure(mail_server, each)?;
                    let sender = Sending::start(configuration, &["--from", &far])?;
                    site.senders.push(sender);
                }
                let relay = format!("'{}' relay --to {near}", program::path()?);
                let started = Instant::now();
                site.collect(queue.url(), &relay, &["--verdicts-from", &near])?;
                started
            }
        };
        let logs = || site.collectors.iter().map(Collector::log).collect();
        let ended = queue.wait_until_drained(tokens, |_| {}, logs).await?;
        for collector in site.collectors.drain(..) {
            collector.stop()?;
        }
        queue.check_drained().await?;
        let rate = per_second(tokens, ended - started);
        self.rates.push(rate);
        Ok(rate)
    }
}

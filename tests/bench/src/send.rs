//! How fast tokens become mails: from the queue to a mail server's or an HTTP API's acceptance,
//! recorded by the collector.
//!
//! Each round is a new collector with a new sender on a refilled queue, from its start until
//! nothing is left in the queue. The contestants take turns and mail to the same server, Postfix'
//! `smtp-sink`, which takes everything. The HTTP API is the stand-in of the tests, written in
//! Python, whose speed bounds that of its senders.

use std::env;
use std::fmt;
use std::fs;
use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use mailroom_sender::protocol::parse_line;
use mailroom_tests::collector::{Collector, command};
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::postgres::Cluster;
use mailroom_tests::program;
use mailroom_tests::sending::{Configuration, batch};
use mailroom_tests::tools::workspace;
use serde_json::json;

use crate::peers::NODE;
use crate::queue::{Kind, Queue};
use crate::report::{Report, Table, median, per_second, rounded};
use crate::run::peak_memory;
use crate::sink::Sink;

#[derive(clap::Args)]
pub(crate) struct Send {
    /// How many tokens wait
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    tokens: u32,

    /// How many rounds there are of each sender; they take turns
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,

    /// How many connections `mailroom send` has
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1, 4, 16, 64])]
    connections: Vec<u32>,

    /// Leave the other senders and the HTTP API out
    #[arg(long)]
    alone: bool,
}

#[derive(Clone, Copy)]
enum Contestant {
    Smtp(u32),
    Resend(u32),
    /// `tests/senders/example.py`: a connection a mail, one after the other.
    Python,
    /// With its pool, in the settings of its documentation.
    Nodemailer,
}

impl fmt::Display for Contestant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Smtp(connections) => {
                write!(formatter, "mailroom send, SMTP, connections: {connections}")
            }
            Self::Resend(connections) => {
                write!(formatter, "mailroom send, HTTP, connections: {connections}")
            }
            Self::Python => formatter.write_str("example.py (smtplib), SMTP"),
            Self::Nodemailer => formatter.write_str("nodemailer with its pool, SMTP"),
        }
    }
}

/// The rounds of one contestant: tokens per second, and the most memory of the sender, in units of
/// 1024 bytes, after a tenth and at the end.
struct Figures {
    contestant: Contestant,
    rates: Vec<u32>,
    early: Vec<u32>,
    peaks: Vec<u32>,
}

pub(crate) async fn measure(server: &Cluster, options: &Send) -> Result<Report> {
    let &Send { tokens, rounds, ref connections, alone } = options;
    ensure!(tokens > 0 && rounds > 0, "--tokens, --rounds: at least one is needed");
    let sink = Sink::start()?;
    let api = MailServer::start_api(&[])?.context("Python 3 is missing")?;
    eprintln!("making {tokens} tokens ...");
    let queue = Queue::create(server, Kind::Deliveries, tokens).await?;

    let smtp = connections.iter().copied().map(Contestant::Smtp);
    let resend = connections.iter().copied().map(Contestant::Resend);
    let others =
        [Contestant::Python, Contestant::Nodemailer].into_iter().chain(resend).filter(|_| !alone);
    let new = |contestant| Figures {
        contestant,
        rates: Vec::new(),
        early: Vec::new(),
        peaks: Vec::new(),
    };
    let mut all: Vec<Figures> = smtp.chain(others).map(new).collect();
    for round in 1..=rounds {
        for figures in &mut all {
            figures.run(&queue, tokens, sink.port, api.port).await?;
            let rate = figures.rates.last().copied().unwrap_or_default();
            eprintln!("round {round} of {rounds}, {}: {rate}/s", figures.contestant);
        }
    }

    let rendering = rendering()?;
    let title = format!(
        "{tokens} tokens sent, median of {rounds} rounds; a mail is written in {rendering} µs"
    );
    let mut table = Table::new(&title, &[&"tokens/s", &"kB at 1/10", &"kB at the end"]);
    let mut json = json!({ "tokens": tokens, "rounds": rounds, "rendering_us": rendering });
    for Figures { contestant, rates, early, peaks } in &all {
        let [rate, early, peak] = [rates, early, peaks].map(|figures| median(figures));
        table.row(&contestant.to_string(), &[&rate, &early, &peak]);
        json[contestant.to_string()] =
            json!({ "tokens_per_s": rate, "early_kb": early, "peak_kb": peak });
    }
    Ok(Report { table, json })
}

impl Figures {
    async fn run(
        &mut self,
        queue: &Queue,
        tokens: u32,
        smtp_port: u16,
        api_port: u16,
    ) -> Result<()> {
        queue.refill().await?;
        let configuration = match self.contestant {
            Contestant::Smtp(connections) => {
                Configuration::smtp(smtp_port, &format!("connections = {connections}"))?
            }
            Contestant::Resend(connections) => {
                let configuration = Configuration::new(&format!(
                    "[resend]\nurl = \"http://127.0.0.1:{api_port}\"\nkey_file = \"key\"\n\
                     connections = {connections}"
                ))?;
                fs::write(configuration.path("key"), "re_test")?;
                configuration
            }
            Contestant::Python | Contestant::Nodemailer => Configuration::smtp(smtp_port, "")?,
        };
        let mut command = command(queue.url())?;
        let sender = match self.contestant {
            Contestant::Smtp(_) | Contestant::Resend(_) => {
                let program = program::path()?;
                format!("'{program}' send --config '{}'", configuration.file().display())
            }
            Contestant::Python => {
                format!("python3 '{}/tests/senders/example.py'", workspace().display())
            }
            Contestant::Nodemailer => {
                let node = env::var(NODE)
                    .with_context(|| format!("{NODE} is not set: run `cargo xtask bench send`"))?;
                format!("'{node}' '{}/tests/bench/peers/nodemailer.mjs'", workspace().display())
            }
        };
        // The last tokens do not wait for others that would fill their batch.
        command.args(["--batch-limit", "100", "--batch-timeout", "0", "--sender", &sender]);
        command.env("SMTP_SERVER", format!("127.0.0.1:{smtp_port}"));
        command.env("MAIL_FROM", "us@x.test").env("LINK_BASE", "https://example.test");

        let started = Instant::now();
        let collector = Collector::start(&mut command)?;
        let mut early = None;
        let look = |left| {
            if early.is_none() && left <= tokens - tokens / 10 {
                early = sender_memory(&collector).ok();
            }
        };
        let ended = queue.wait_until_drained(tokens, look, || collector.log()).await?;
        self.rates.push(per_second(tokens, ended - started));
        self.peaks.push(sender_memory(&collector)?);
        self.early.extend(early);
        collector.stop()?;
        queue.check_drained().await
    }
}

fn sender_memory(collector: &Collector) -> Result<u32> {
    peak_memory(collector.sender()?.context("the collector has no sender")?)
}

/// How long writing a mail takes, in µs: from the protocol's token to the bytes for a mail server;
/// the median of many.
fn rendering() -> Result<f64> {
    let configuration = Configuration::smtp(25, "")?;
    let file = configuration.file();
    let write = mailroom_sender::writer(&file)?;
    let line = batch("b", &[(1, "ada.lovelace@example.org")]);
    let batch = parse_line(line.as_bytes()).map_err(|error| anyhow::anyhow!("{}", error.reason))?;
    let mut times = Vec::new();
    for _ in 0..20_000 {
        let began = Instant::now();
        black_box(write(black_box(&batch.items[0])).map_err(anyhow::Error::msg)?);
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(rounded(median(&times), 1))
}

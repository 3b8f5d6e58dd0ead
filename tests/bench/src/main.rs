//! Benchmarks of `mailroom` and its database on a throwaway PostgreSQL.
//! `cargo xtask bench` starts them.

mod adaptive;
mod capacity;
mod check;
mod drain;
mod migrations;
mod peers;
mod queue;
mod relay;
mod report;
mod requests;
mod run;
mod scale;
mod send;
mod sink;
mod soak;
mod textbook;
mod wake;
mod wal;
mod writers;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use mailroom_tests::postgres::{Cluster, REPLICATION_HBA, Wanted};

use crate::report::Report;

#[derive(Parser)]
#[command(
    bin_name = "cargo xtask bench",
    about = "Benchmarks of mailroom on a throwaway PostgreSQL"
)]
struct Options {
    #[command(subcommand)]
    benchmark: Benchmark,

    /// Print one line of JSON instead of a table
    #[arg(long, global = true)]
    json: bool,

    /// The PostgreSQL to run: a version such as 15 or 18, or the folder of its programs
    #[arg(long, global = true, value_name = "VERSION", value_parser = Wanted::parse)]
    postgres: Option<Wanted>,
}

#[derive(clap::Subcommand)]
enum Benchmark {
    /// The waiting tokens that `mailroom collect` signs and prints in a second, beside other queues
    /// that do nothing with their jobs
    Drain(drain::Drain),
    /// The same with the queue of deliveries alone,
    /// with and without a snapshot that is held open elsewhere
    Pinned(drain::Alone),
    /// The most memory that a collector of the queue of deliveries has
    /// while it drains, by its batch limit
    Memory(drain::Alone),
    /// From the commit of a registration to its line, of a collector that waits for notifications
    Latency(wake::Latency),
    /// Registrations by 1 and by 16 writers while a collector is notified, while it only polls, and
    /// while every registration notifies
    Wake(wake::Wake),
    /// Each migration on a large database: how long it takes, and how long others wait for it
    Migrations(migrations::Migrations),
    /// One `mailroom.request`, for people who exist and for those who do not
    Requests(requests::Requests),
    /// What calls touch in a database of many millions of tokens; fails where that is more than is
    /// stated
    Scale(scale::Scale),
    /// A simulated day: `--adaptive` beside fixed batch limits and timeouts; without PostgreSQL
    Adaptive(adaptive::Adaptive),
    /// The tokens that become mails in a second, by `mailroom send` and by other senders, and the
    /// memory that it takes
    Send(send::Send),
    /// The tokens that become mails in a second: by one sender, by collectors on four machines, and
    /// by a broker with senders on four machines, near and far
    Relay(relay::Relay),
    /// Registrations at a steady rate for an hour, beside a backup, a snapshot that is held open,
    /// new keys, and collectors that come and go: what grows
    Soak(soak::Soak),
    /// Waking by the write-ahead log beside NOTIFY: delay, rate, and what the log's reader costs
    Wal(wal::Wal),
    /// The processor time that a token takes: a model that is fitted to some runs, and how far it
    /// is from others
    Capacity(capacity::Capacity),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = Options::parse();
    match measure(&options).await {
        Ok(report) if options.json => println!("{}", report.json),
        Ok(report) => println!("{}", report.table),
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

async fn measure(Options { benchmark, postgres, .. }: &Options) -> Result<Report> {
    if let Benchmark::Adaptive(options) = benchmark {
        return adaptive::simulate(options);
    }
    eprintln!("starting a throwaway PostgreSQL ...");
    // It writes as safely as one in service.
    let mut server = match benchmark {
        // A disk of a shared machine takes longer than all that is measured there.
        Benchmark::Capacity(_) => Cluster::builder(),
        _ => Cluster::builder().durable(),
    };
    if let Some(wanted) = postgres {
        server = server.version(wanted.clone());
    }
    match benchmark {
        // Other queues connect by TCP.
        Benchmark::Drain(options) => drain::drain(&server.tcp().start()?, options).await,
        Benchmark::Pinned(options) => drain::pinned(&server.start()?, options).await,
        Benchmark::Memory(options) => drain::memory(&server.start()?, options).await,
        Benchmark::Latency(options) => wake::latency(&server.start()?, options).await,
        Benchmark::Wake(options) => wake::wake(&server.start()?, options).await,
        Benchmark::Migrations(options) => {
            // As an installation would run.
            let server = server.setting("max_wal_size", "1GB").start()?;
            migrations::measure(&server, options).await
        }
        Benchmark::Requests(options) => requests::measure(&server.start()?, options).await,
        Benchmark::Scale(options) => {
            let server = server.setting("max_wal_size", "4GB").setting("shared_buffers", "512MB");
            scale::measure(&server.start()?, options).await
        }
        Benchmark::Adaptive(options) => adaptive::simulate(options),
        Benchmark::Send(options) => send::measure(&server.start()?, options).await,
        // Other machines connect by TCP.
        Benchmark::Relay(options) => relay::measure(&server.tcp().start()?, options).await,
        Benchmark::Soak(options) => {
            // As an installation would run.
            let server = server.setting("max_wal_size", "1GB").hba(REPLICATION_HBA);
            soak::measure(&server.start()?, options).await
        }
        Benchmark::Wal(options) => {
            wal::measure(&server.setting("wal_level", "logical").start()?, options).await
        }
        Benchmark::Capacity(options) => {
            let server =
                server.setting("full_page_writes", "on").setting("shared_buffers", "512MB");
            capacity::measure(&server.start()?, options).await
        }
    }
}

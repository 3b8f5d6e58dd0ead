//! What it costs writers that collectors are woken, and how soon a collector that sleeps hands a token over. Started by
//! `cargo xtask bench wake` and `cargo xtask bench latency`.

mod latency;
mod reader;
mod report;
mod server;
mod wake;
mod writers;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;

#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    what: What,

    /// Print one line of JSON instead of a table
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum What {
    /// Registrations per second while a collector collects
    Wake {
        /// How many rounds each contestant gets; they take turns
        #[arg(long)]
        rounds: usize,

        /// How long a round registers
        #[arg(long)]
        seconds: u64,
    },
    /// The time from the commit of a registration to its line
    Latency {
        /// How many registrations
        #[arg(long)]
        tokens: usize,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = Options::parse();
    match measure(&options).await {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(options: &Options) -> Result<String> {
    Ok(match options.what {
        What::Wake { rounds, seconds } => {
            let figures = wake::measure(rounds, Duration::from_secs(seconds)).await?;
            if options.json { figures.as_json() } else { figures.as_table() }
        }
        What::Latency { tokens } => {
            let figures = latency::measure(tokens).await?;
            if options.json { figures.as_json() } else { figures.as_table() }
        }
    })
}

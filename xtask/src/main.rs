//! The automation of this repository: `cargo xtask bench`, `demo`, `dist`, `docs`, `fuzz`,
//! `npm`, `postgres`, `schema`, `test`.

mod bench;
mod consumers;
mod demo;
mod dist;
mod docs;
mod execute;
mod extent;
mod fuzz;
mod load;
mod node;
mod npm;
mod outcome;
mod processes;
mod python;
mod rust;
mod schema;
mod step;
mod test;
mod tools;

use std::io;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use mailroom_tests::postgres::Cluster;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "The automation of this repository"
)]
enum Task {
    /// Measures the npm package and the collector
    Bench(bench::Options),
    /// Shows the whole way of a link on web pages: register, receive, click,
    /// and see the edge decide
    Demo(demo::Options),
    Dist(dist::Options),
    /// Builds the book of the folder docs into target/book
    Docs(docs::Options),
    /// Fuzzes every parser and redeeming
    Fuzz(fuzz::Options),
    /// Builds the npm package and packs it into target/npm
    Npm,
    /// Starts a throwaway PostgreSQL, prints its URL, and ends it when the input ends
    Postgres,
    /// Writes the long migrations from the files of migrations/schema and migrations/accounts
    Schema,
    /// Checks and tests everything, as continuous integration does
    Test(test::Options),
    /// Computes until its input ends, for `test --load`
    #[command(hide = true)]
    Busy,
}

fn main() -> ExitCode {
    let result = match Task::parse() {
        Task::Bench(options) => bench::run(&options),
        Task::Demo(options) => demo::run(options),
        Task::Dist(options) => dist::run(&options),
        Task::Docs(options) => docs::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Npm => npm::run(),
        Task::Postgres => postgres(),
        Task::Schema => schema::write().map(|()| ExitCode::SUCCESS),
        Task::Test(options) => test::run(&options),
        Task::Busy => load::be_busy(),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn postgres() -> Result<ExitCode> {
    let server = Cluster::start()?;
    println!("{}", server.url("postgres"));
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(ExitCode::SUCCESS)
}

//! The automation of this repository: `cargo xtask demo`, `cargo xtask test`, `cargo xtask fuzz`.

mod demo;
mod fuzz;
mod lint;
mod rust;
mod step;
mod test;
mod tools;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "The automation of this repository")]
enum Task {
    /// Registers accounts in a throwaway PostgreSQL and checks every token that comes out, twice
    Demo(demo::Options),
    /// Tries inputs that nobody thought of on every parser and on redeeming
    Fuzz(fuzz::Options),
    /// Checks and tests everything, as continuous integration does
    Test(test::Options),
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    match Task::parse() {
        Task::Demo(options) => demo::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Test(options) => test::run(&options),
    }
}

//! Starts a server of its own and the shared one, says where they are,
//! and waits for a line on standard input.
//!
//! The tests of the harness end this program in several ways and look for what it leaves.

use std::io;

use anyhow::{Context, Result};
use mailroom_tests::postgres::{Cluster, Database};

fn main() -> Result<()> {
    let own = Cluster::start()?;
    let database = Database::create()?;
    let shared = database.url().split(['@', ':']).nth(2).context("the URL has a host")?;
    println!("{}\n{}", own.socket_dir().display(), shared.replace("%2F", "/"));
    io::stdin().read_line(&mut String::new())?;
    Ok(())
}

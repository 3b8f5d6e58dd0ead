//! Faults of a broker and of all around it, at random: what `cargo xtask test --chaos 30m --broker
//! nats,rabbitmq` does, for some seconds.

use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use mailroom_tests::machine::is_full;
use mailroom_tests::program;

fn chaos(broker: &str) -> Result<()> {
    let seconds = if is_full() { "600" } else { "20" };
    let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.subsec_nanos().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_chaos"));
    command.args([seconds, &seed, "--broker", broker]);
    command.env("MAILROOM_TEST_PROGRAM", program::mailroom()?.get_program());
    let output = command.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    ensure!(output.status.success(), "{said}");
    Ok(())
}

#[test]
fn faults_around_rabbitmq_lose_no_mail_and_the_database_tells_the_truth() -> Result<()> {
    chaos("rabbitmq")
}

/// A mail that a killed server gives out no more is sent after 24 minutes.
#[test]
fn faults_around_nats_lose_no_mail_and_the_database_tells_the_truth() -> Result<()> {
    if is_full() { chaos("nats") } else { Ok(()) }
}

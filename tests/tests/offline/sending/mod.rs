//! `mailroom send`: lines in, mails at real servers, answers out.

mod api;
mod configuration;
mod doubt;
mod neighbours;
mod once;
mod smtp;
mod strangers;
mod templates;

use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::Result;
use mailroom_tests::program;
use mailroom_tests::sending::{Configuration, Sending, batch, batch_knowing};
use serde_json::Value;

/// Status, standard output and standard error of `mailroom send` without input.
fn run(configuration: &Configuration, arguments: &[&str]) -> Result<(Option<i32>, String, String)> {
    let mut command = program::mailroom()?;
    command.args(["send", "--config"]).arg(configuration.file()).args(arguments);
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output()?;
    Ok((status.code(), String::from_utf8(stdout)?, String::from_utf8(stderr)?))
}

/// The one answer to a batch with one token.
fn answer_for(configuration: &Configuration, email: &str) -> Result<Value> {
    answer_to(configuration, &batch("b", &[(1, email)]))
}

/// The one answer to a batch with one token, of which the database knows one attempt in doubt.
fn answer_after_a_doubt(configuration: &Configuration, email: &str) -> Result<Value> {
    answer_to(configuration, &batch_knowing("b", &["in_doubt"], &[(1, email)], 1))
}

fn answer_to(configuration: &Configuration, line: &str) -> Result<Value> {
    let (answer, errors) = answer_and_errors_to(configuration, line)?;
    assert!(errors.is_empty(), "{errors}");
    Ok(answer)
}

/// The one answer to a line, and what is said on standard error.
fn answer_and_errors_to(configuration: &Configuration, line: &str) -> Result<(Value, String)> {
    let mut sending = Sending::start(configuration, &[])?;
    sending.write(line)?;
    // Signs of life come before it where a machine takes its time.
    let answer = loop {
        let answer = sending.answer()?;
        if answer.get("working").is_none() {
            break answer;
        }
    };
    assert_eq!(sending.answer_within(Duration::from_millis(20)), None);
    let (status, errors) = sending.finish()?;
    assert!(status.success(), "{status}: {errors}");
    Ok((answer, remarks(&errors)))
}

/// What is said on standard error, without what is said of a mail server that takes its time, as it
/// does on a busy machine.
fn remarks(errors: &str) -> String {
    let is_of_slowness = |line: &&str| {
        ["says nothing for seconds about mails to", "answers at once again about mails to"]
            .iter()
            .any(|words| line.contains(words))
    };
    errors.split_inclusive('\n').filter(|line| !is_of_slowness(line)).collect()
}

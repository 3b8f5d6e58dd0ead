//! `mailroom send`: lines in, mails at real servers, answers out.

mod configuration;
mod once;
mod smtp;
mod strangers;
mod templates;

use std::time::Duration;

use anyhow::Result;
use mailroom_tests::sending::{Configuration, Sending, batch};
use serde_json::Value;

/// The one answer to a batch with one token.
fn answer_for(configuration: &Configuration, email: &str) -> Result<Value> {
    let mut sending = Sending::start(configuration, &[])?;
    sending.write(&batch("b", &[(1, email)]))?;
    let answer = sending.answer()?;
    assert_eq!(sending.answer_within(Duration::from_millis(20)), None);
    let (status, errors) = sending.finish()?;
    assert!(status.success() && errors.is_empty(), "{status}: {errors}");
    Ok(answer)
}

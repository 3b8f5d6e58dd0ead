//! What is allowed, and what is said of the rest.

use super::*;

fn read(variables: &[(&str, &str)]) -> Result<CollectSettings, String> {
    let lookup = |name: &str| {
        variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| OsString::from(value))
    };
    CollectSettings::read(&CollectFlags::default(), &lookup).map_err(|error| error.to_string())
}

#[test]
fn defaults_are_those_of_existing_installations() {
    let settings = read(&[]).unwrap();
    assert_eq!(settings.token_format, Version::V1);
    assert_eq!(settings.channel, "token_insert");
    assert_eq!(settings.queue_name, "mailroom");
    assert_eq!(settings.queue_kind, QueueKind::Deliveries);
    assert_eq!(settings.healthcheck_interval, Duration::from_secs(270));
    assert_eq!(settings.batch_timeout, Duration::from_secs(5));
    assert_eq!(settings.batch_limit, 10);
    assert_eq!(settings.poll_interval, Duration::from_secs(5));
    assert_eq!(settings.wake, Wake::Hint);
    assert_eq!(settings.retention, Some(Duration::from_secs(30 * 86_400)));
    assert_eq!(settings.prefetch, Prefetch::Auto);
    assert_eq!(settings.line_format, LineFormat::Csv);
    assert_eq!(settings.sender, None);
    assert_eq!(settings.sender_timeout, Duration::from_secs(30));
    assert_eq!(settings.lease, Duration::from_secs(90));
    assert_eq!(settings.log_format, LogFormat::Text);
    assert_eq!(settings.log_level, LogLevel::Info);
}

#[test]
fn an_empty_variable_is_not_set() {
    assert_eq!(read(&[("MAILROOM_BATCH_LIMIT", "")]).unwrap().batch_limit, 10);
}

#[test]
fn a_flag_beats_its_variable_and_is_named_in_the_error() {
    let flags = CollectFlags { batch_limit: Some("3".into()), ..CollectFlags::default() };
    let settings = CollectSettings::read(&flags, &|_| Some("auto".into()));
    assert_eq!(
        settings.unwrap_err().to_string(),
        "MAILROOM_LOG_FORMAT is `auto`, but must be `text` or `json`"
    );
    let settings =
        CollectSettings::read(&flags, &|name| (name == "MAILROOM_BATCH_LIMIT").then(|| "x".into()));
    assert_eq!(settings.unwrap().batch_limit, 3);
    let flags = CollectFlags { batch_limit: Some("-3".into()), ..CollectFlags::default() };
    assert_eq!(
        CollectSettings::read(&flags, &|_| None).unwrap_err().to_string(),
        "--batch-limit is `-3`, but must be a whole number from 1 to 10000"
    );
}

#[test]
fn the_poll_interval_is_bounded_by_the_healthcheck_interval() {
    let settings = read(&[("MAILROOM_HEALTHCHECK_INTERVAL", "6s"), ("MAILROOM_POLL_INTERVAL", "1h")]);
    assert_eq!(settings.unwrap().poll_interval, Duration::from_secs(6));
}

#[test]
fn pruning_can_be_switched_off() {
    assert_eq!(read(&[("MAILROOM_RETENTION", "off")]).unwrap().retention, None);
}

#[test]
fn every_invalid_value_is_one_sentence_that_names_its_variable() {
    const LIMIT: &str = "but must be a whole number from 1 to 10000";
    const SPAN: &str = "but must be a whole number of milliseconds, or one with the unit ms, s, m or h, from";
    for (name, value, sentence) in [
        ("MAILROOM_BATCH_LIMIT", "0", format!("MAILROOM_BATCH_LIMIT is `0`, {LIMIT}")),
        ("MAILROOM_BATCH_LIMIT", "-1", format!("MAILROOM_BATCH_LIMIT is `-1`, {LIMIT}")),
        ("MAILROOM_BATCH_LIMIT", "10001", format!("MAILROOM_BATCH_LIMIT is `10001`, {LIMIT}")),
        ("MAILROOM_BATCH_LIMIT", "ten", format!("MAILROOM_BATCH_LIMIT is `ten`, {LIMIT}")),
        ("MAILROOM_BATCH_TIMEOUT", "-1", format!("MAILROOM_BATCH_TIMEOUT is `-1`, {SPAN} 0 to 1h")),
        (
            "MAILROOM_HEALTHCHECK_INTERVAL",
            "4999",
            "MAILROOM_HEALTHCHECK_INTERVAL is 4999ms, which is below the batch timeout of 5s; raise it, or lower \
             MAILROOM_BATCH_TIMEOUT"
                .to_owned(),
        ),
        ("MAILROOM_POLL_INTERVAL", "0", format!("MAILROOM_POLL_INTERVAL is `0`, {SPAN} 100ms to 24h")),
        ("MAILROOM_WAKE", "never", "MAILROOM_WAKE is `never`, but must be `hint` or `poll`".to_owned()),
        (
            "MAILROOM_RETENTION",
            "30",
            "MAILROOM_RETENTION is `30`, but must be `off` or a whole number with the unit h or d, from 24h to 36500d"
                .to_owned(),
        ),
        (
            "MAILROOM_PREFETCH",
            "0",
            "MAILROOM_PREFETCH is `0`, but must be `auto` or a whole number from 1 to 1000".to_owned(),
        ),
        (
            "MAILROOM_LINE_FORMAT",
            "json",
            "MAILROOM_LINE_FORMAT is `json`, but must be `csv` or `ndjson`".to_owned(),
        ),
        (
            "MAILROOM_SENDER",
            "send --key 'hunter2",
            "MAILROOM_SENDER is no command; it must be a program with its arguments, separated by blanks, and quoted \
             as in a shell"
                .to_owned(),
        ),
        (
            "MAILROOM_SENDER_TIMEOUT",
            "soon",
            format!("MAILROOM_SENDER_TIMEOUT is `soon`, {SPAN} 100ms to 1h"),
        ),
        ("MAILROOM_LEASE", "0", format!("MAILROOM_LEASE is `0`, {SPAN} 1s to 24h")),
        (
            "MAILROOM_LEASE",
            "59999",
            "MAILROOM_LEASE is 59999ms, which is below twice the sender's timeout of 30s; raise it, or lower \
             MAILROOM_SENDER_TIMEOUT"
                .to_owned(),
        ),
        (
            "MAILROOM_SENDER_TIMEOUT",
            "46s",
            "the default of MAILROOM_LEASE is 90s, which is below twice the sender's timeout of 46s; raise it, or \
             lower MAILROOM_SENDER_TIMEOUT"
                .to_owned(),
        ),
        (
            "MAILROOM_PREFETCH",
            "many",
            "MAILROOM_PREFETCH is `many`, but must be `auto` or a whole number from 1 to 1000".to_owned(),
        ),
        (
            "MAILROOM_TOKEN_FORMAT",
            "2",
            "MAILROOM_TOKEN_FORMAT is `2`, but must be `v1` or `v2` or `v3`".to_owned(),
        ),
        (
            "MAILROOM_QUEUE_KIND",
            "Cursor",
            "MAILROOM_QUEUE_KIND is `Cursor`, but must be `deliveries` or, on a schema before migration 15, `cursor`".to_owned(),
        ),
        (
            "MAILROOM_LOG_LEVEL",
            "trace",
            "MAILROOM_LOG_LEVEL is `trace`, but must be `error` or `warn` or `info` or `debug`".to_owned(),
        ),
    ] {
        assert_eq!(read(&[(name, value)]).unwrap_err(), sentence);
    }
    let name = "x".repeat(64);
    for variable in ["MAILROOM_CHANNEL_NAME", "MAILROOM_QUEUE_NAME"] {
        let error = read(&[(variable, &name)]).unwrap_err();
        assert!(error.starts_with(&format!("{variable} is `")), "{error}");
        assert!(error.ends_with("but must be a name of 1 to 63 bytes without a NUL character"), "{error}");
    }
}

#[test]
fn what_names_a_cursor_or_its_channel_is_refused_for_deliveries_but_for_the_defaults() {
    const CURSOR: (&str, &str) = ("MAILROOM_QUEUE_KIND", "cursor");
    let advice = "unset it or, on a schema from before migration 15, set MAILROOM_QUEUE_KIND to `cursor`";
    for (name, default, fault) in [
        (
            "MAILROOM_CHANNEL_NAME",
            "token_insert",
            "but the queue `deliveries` is announced on `token_insert`",
        ),
        (
            "MAILROOM_QUEUE_NAME",
            "mailroom",
            "but names a row of the table jobs, which the queue `deliveries` does not read",
        ),
    ] {
        assert_eq!(
            read(&[(name, "letters")]).unwrap_err(),
            format!("{name} is `letters`, {fault}; {advice}")
        );
        assert!(read(&[(name, default)]).is_ok());
        assert!(read(&[(name, "letters"), CURSOR]).is_ok());
    }
    // Nobody listens there.
    assert!(read(&[("MAILROOM_CHANNEL_NAME", "letters"), ("MAILROOM_WAKE", "poll")]).is_ok());
}

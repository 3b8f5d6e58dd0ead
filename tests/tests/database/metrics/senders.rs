//! What `mailroom send` and `mailroom bounces` serve, each at an address of its own.

use std::net::TcpListener;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::{self, Collector, wait_until};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::http;
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::port;
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use mailroom_tests::rows::{WITHOUT_VERDICT, wait_for};
use mailroom_tests::sending::Configuration;

use super::{get, values};
use crate::bounces::{Bounces, bounced};

const SAID: &str = "metrics are served at http://";

/// A collector whose sender serves metrics at this address.
fn command(database: &Database, configuration: &Configuration, address: &str) -> Result<Command> {
    let mut command = collector::command(database.url())?;
    let program = program::path()?;
    let file = configuration.file();
    let sender =
        format!("'{program}' send --config '{}' --metrics-address {address}", file.display());
    command.args(["--batch-timeout", "0", "--poll-interval", "200ms", "--sender", &sender]);
    Ok(command)
}

/// The address that a sender of a collector has said.
pub(super) fn address_of_sender(collector: &Collector) -> Result<String> {
    collector.wait_for_log(SAID, 1)?;
    let log = collector.log();
    let address = log.split_once(SAID).context("an address")?.1;
    Ok(address.split_once('/').context("a path")?.0.to_owned())
}

fn wait_for_value(address: &str, series: &str, value: f64) -> Result<()> {
    let mut last = None;
    let has_it = || {
        last = values(address).ok().and_then(|values| values.get(series).copied());
        last.is_some_and(|last| (last - value).abs() < f64::EPSILON)
    };
    wait_until(has_it).with_context(|| format!("{series} is {last:?}: {:?}", values(address)))
}

#[tokio::test]
async fn a_sender_counts_its_mails_by_provider_and_verdict() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client
        .accounts(["ada", "bob", "gone", "busy"])
        .emails(["ada@x.test", "bob@x.test", "rcpt-550@x.test", "rcpt-451-first@x.test"])
        .insert()
        .await?;
    let configuration = Configuration::smtp(server.port, "connections = 2")?;
    let collector = Collector::start(&mut command(&database, &configuration, "0")?)?;
    wait_for(&client, WITHOUT_VERDICT, 0_i64).await?;
    let address = address_of_sender(&collector)?;
    let attempts = |verdict| {
        format!("mailroom_send_attempts_total{{provider=\"smtp\",verdict=\"{verdict}\"}}")
    };
    wait_for_value(&address, &attempts("sent"), 3.0)?;
    wait_for_value(&address, &attempts("retry"), 1.0)?;
    wait_for_value(&address, "mailroom_send_answer_seconds_count{provider=\"smtp\"}", 5.0)?;
    wait_for_value(&address, "mailroom_send_connections{provider=\"smtp\"}", 2.0)?;
    let values = values(&address)?;
    let refused = ["dead", "unknown_address"].map(|verdict| values[&attempts(verdict)]);
    ensure!(refused.iter().sum::<f64>().to_bits() == 1.0_f64.to_bits(), "{refused:?}");
    for state in ["waiting", "under_way", "unanswered"] {
        let series = format!("mailroom_send_mails{{provider=\"smtp\",state=\"{state}\"}}");
        ensure!(values[&series] == 0.0, "{series}: {}", values[&series]);
    }
    let works = "mailroom_send_provider_state{provider=\"smtp\",state=\"working\"}";
    ensure!(values[works].to_bits() == 1.0_f64.to_bits());
    let text = get(&address, "/metrics")?.1;
    ensure!(!text.contains("x.test") && !text.contains("token="), "{text}");
    ensure!(get(&address, "/")?.0 == 404);
    ensure!(http::ask(&address, b"POST /metrics HTTP/1.1\r\nhost: x\r\n\r\n")?.0 == 405);
    // The provider goes away.
    drop(server);
    client.account("eve").at("x.test").insert().await?;
    wait_for_value(&address, &works.replace("working", "failing"), 1.0)?;
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn a_sender_sends_though_another_program_has_its_address_of_metrics() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let taken = TcpListener::bind(("127.0.0.1", port::free()?))?;
    let address = taken.local_addr()?.to_string();
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.account("ada").at("x.test").insert().await?;
    let configuration = Configuration::smtp(server.port, "")?;
    let collector = Collector::start(&mut command(&database, &configuration, &address)?)?;
    wait_for(&client, WITHOUT_VERDICT, 0_i64).await?;
    collector.wait_for_log("metrics are not served", 1)?;
    drop(taken);
    ensure!(address_of_sender(&collector)? == address);
    wait_for_value(
        &address,
        "mailroom_send_attempts_total{provider=\"smtp\",verdict=\"sent\"}",
        1.0,
    )?;
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn notifications_are_counted_by_provider_and_verdict() -> Result<()> {
    let database = Database::migrated()?;
    let bounces = Bounces::listen_with_metrics(database.url())?;
    let address = bounces.metrics_address()?;
    for _ in 0..2 {
        assert_eq!(bounces.resend(&bounced("Permanent", "\"ada@x.test\""))?.0, 200);
    }
    assert_eq!(bounces.resend(&bounced("Transient", "\"eve@x.test\""))?.0, 200);
    let complaint = r#"{"type":"email.complained","data":{"to":["bob@x.test"]}}"#;
    assert_eq!(bounces.resend(complaint)?.0, 200);
    assert_eq!(bounces.resend_at(complaint, 100_000)?.0, 401);
    assert_eq!(bounces.resend("{")?.0, 400);
    let json = "content-type: application/json";
    let of_nobody =
        format!("POST /nobody HTTP/1.1\r\nhost: x\r\n{json}\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(bounces.exchange(of_nobody.as_bytes())?.0, 404);
    let values = values(&address)?;
    for (series, expected) in [
        ("notifications_total{provider=\"resend\",verdict=\"taken\"}", 3.0),
        ("notifications_total{provider=\"resend\",verdict=\"ignored\"}", 1.0),
        ("notifications_total{provider=\"resend\",verdict=\"unproven\"}", 1.0),
        ("notifications_total{provider=\"resend\",verdict=\"unreadable\"}", 1.0),
        ("notifications_total{provider=\"postmark\",verdict=\"taken\"}", 0.0),
        ("reported_addresses_total{provider=\"resend\",reason=\"bounce\"}", 2.0),
        ("reported_addresses_total{provider=\"resend\",reason=\"complaint\"}", 1.0),
        ("suppressed_addresses_total{provider=\"resend\"}", 2.0),
    ] {
        let found = values.get(&format!("mailroom_bounces_{series}"));
        assert_eq!(found.map(|value| value.to_bits()), Some(f64::to_bits(expected)), "{series}");
    }
    let text = get(&address, "/metrics")?.1;
    assert!(!text.contains("x.test") && !text.contains("nobody"), "{text}");
    // Where notifications come in, nobody is told.
    assert_eq!(bounces.exchange(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n")?.0, 404);
    bounces.program.stop()?;
    Ok(())
}

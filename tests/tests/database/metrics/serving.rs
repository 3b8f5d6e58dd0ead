use std::io::Write as _;
use std::net::TcpStream;

use anyhow::{Context, Result};
use mailroom_tests::collector::{Collector, KEY, PATIENCE, wait_until};
use mailroom_tests::port;
use mailroom_tests::postgres::{Cluster, Database, Shutdown};
use mailroom_tests::program;
use mailroom_tests::rows::register;
use rustix::io::ioctl_fionread;
use rustix::process::Signal;

use super::Served;

const SENT: &str = "mailroom_settled_tokens_total{verdict=\"sent\"}";

#[tokio::test]
async fn what_is_collected_is_counted_and_served_in_both_formats() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let settings = [("MAILROOM_BATCH_TIMEOUT", "0"), ("MAILROOM_RATE", "1000/s")];
    let mut served = Served::start(database.url(), &settings)?;
    served.wait_for("mailroom_ready", 1.0)?;
    let lines = served.collector.lines()?;
    register(&client, 1..=25).await?;
    let tokens = lines.next_items(25)?;
    served.wait_for(SENT, 25.0)?;
    let values = served.values()?;
    let value = |name: &str| {
        values.get(name).copied().with_context(|| format!("{name} is missing in {values:?}"))
    };
    assert!(value("mailroom_claimed_tokens_total")? >= 25.0);
    assert!(value("mailroom_claim_delay_seconds_count")? >= 25.0);
    assert!(value("mailroom_claim_delay_seconds_sum")? < 25.0 * PATIENCE.as_secs_f64());
    assert!(value("mailroom_delivery_delay_seconds_count")? >= 25.0);
    assert!(value("mailroom_batch_tokens_sum")? >= 25.0);
    assert!(value("mailroom_answer_seconds_count")? >= 3.0);
    assert!(value("mailroom_queue_openings_total")? >= 1.0);
    for (name, expected) in [
        ("mailroom_dead_letters_total", 0.0),
        ("mailroom_possible_duplicates_total{cause=\"lease_lapsed\"}", 0.0),
        ("mailroom_skipped_tokens_total{reason=\"expired\"}", 0.0),
        ("mailroom_rate_limit_tokens_per_second", 1000.0),
        ("mailroom_build_info{version=\"0.1.0\"}", 1.0),
    ] {
        assert_eq!(value(name)?.to_bits(), f64::to_bits(expected), "{name}");
    }
    // The database is asked at the start, and then every half a minute.
    wait_until(|| {
        served.values().is_ok_and(|values| {
            values.get("mailroom_queue_asked_timestamp_seconds").is_some_and(|at| *at > 0.0)
        })
    })?;
    assert!(served.values()?["mailroom_rate_left_tokens"] >= 0.0);

    let (status, head, plain) = served.exchange(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    assert!(status == 200 && head.to_lowercase().contains("text/plain; version=0.0.4"), "{head}");
    assert!(plain.contains("# TYPE mailroom_claimed_tokens_total counter\n"), "{plain}");
    let open = b"GET /metrics HTTP/1.1\r\nhost: x\r\naccept: application/openmetrics-text;\
        version=1.0.0,text/plain;q=0.5\r\n\r\n";
    let (status, head, open) = served.exchange(open)?;
    assert!(
        status == 200 && head.contains("application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    assert!(open.contains("# UNIT mailroom_claim_delay_seconds seconds\n"), "{open}");
    assert!(open.ends_with("# EOF\n"), "{open}");
    for secret in [KEY, "example.test", "user1", &tokens[0].token] {
        assert!(!plain.contains(secret) && !open.contains(secret), "{secret} is shown");
    }
    served.collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn what_is_no_question_is_refused_and_the_next_one_is_answered() -> Result<()> {
    let database = Database::migrated()?;
    let served = Served::start(database.url(), &[])?;
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(70_000));
    for (bytes, status) in [
        (&b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..], 404),
        (b"GET /metrics/../metrics HTTP/1.1\r\nhost: x\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nx", 405),
        (b"DELETE /livez HTTP/1.1\r\nhost: x\r\n\r\n", 405),
        (b"HEAD /metrics HTTP/1.1\r\nhost: x\r\n\r\n", 200),
    ] {
        assert_eq!(served.exchange(bytes)?.0, status, "{}", String::from_utf8_lossy(bytes));
    }
    for bytes in
        [&b"\0\xff\r\n\r\n"[..], b"GET\r\n\r\n", b"\x16\x03\x01\x02\0\x01", long.as_bytes()]
    {
        // Some are answered with a 4xx, others by the end of the connection.
        served.exchange(bytes).ok();
        assert_eq!(served.get("/livez")?, (200, "ok\n".to_owned()));
    }
    served.collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn a_collector_is_ready_while_its_database_is_there_and_it_does_not_end() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?;
    let mut served = Served::start(database.url(), &[("MAILROOM_BATCH_TIMEOUT", "0")])?;
    let said = served.wait_for_status("/readyz", 503)?;
    assert!(said.contains("schema") || said.contains("not been opened"), "{said}");
    served.collector.wait_for_log("migrate up", 1)?;
    // It is said a moment later.
    let says_why = || served.get("/readyz").is_ok_and(|(_, said)| said.contains("schema"));
    wait_until(says_why).context("/readyz does not say that the schema is missing")?;
    let mut migrate = program::mailroom()?;
    migrate.args(["migrate", "up"]).env("MAILROOM_DATABASE_URL", database.url());
    assert!(migrate.output()?.status.success());
    served.wait_for_status("/readyz", 200)?;
    cluster.stop(Shutdown::Immediate)?;
    let said = served.wait_for_status("/readyz", 503)?;
    assert_eq!(said, "the database is away, read-only or a standby\n");
    served.wait_for("mailroom_ready", 0.0)?;
    assert_eq!(served.get("/livez")?.0, 200);
    cluster.start_again()?;
    served.wait_for_status("/readyz", 200)?;
    // Read-only, as a database that was just demoted.
    let client = database.connect().await?;
    let read_only =
        format!("ALTER DATABASE \"{}\" SET default_transaction_read_only = on", database.name());
    client.batch_execute(&read_only).await?;
    // Afterwards: a session that begins before the commit can write.
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name LIKE 'mailroom collect%'";
    client.batch_execute(end).await?;
    served.wait_for_status("/readyz", 503)?;
    let writable = format!(
        "SET default_transaction_read_only = off;
        ALTER DATABASE \"{}\" RESET default_transaction_read_only",
        database.name()
    );
    client.batch_execute(&writable).await?;
    served.wait_for_status("/readyz", 200)?;
    // Nobody reads what it has written: it has to wait for a while when it ends.
    let output = served.collector.output()?;
    register(&client, 1..=1_000).await?;
    wait_until(|| ioctl_fionread(&output).is_ok_and(|unread| unread > 0))?;
    served.collector.signal(Signal::TERM)?;
    let said = served.wait_for_status("/readyz", 503)?;
    assert_eq!(said, "the collector is ending\n");
    served.collector.wait()?;
    Ok(())
}

#[tokio::test]
async fn scrapers_that_hang_and_a_thousand_connections_delay_no_mail() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut served = Served::start(database.url(), &[("MAILROOM_BATCH_TIMEOUT", "0")])?;
    let lines = served.collector.lines()?;
    let mut connections = Vec::new();
    for number in 0..1_000 {
        let Ok(mut stream) = TcpStream::connect(&served.address) else { continue };
        let request: &[u8] = match number % 3 {
            0 => b"",
            1 => b"GET /metrics HTTP/1.1\r\nhost:",
            // Asks, and reads nothing.
            _ => b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n",
        };
        stream.write_all(request).ok();
        connections.push(stream);
    }
    register(&client, 1..=200).await?;
    assert_eq!(lines.next_items(200)?.len(), 200);
    served.wait_for(SENT, 200.0)?;
    drop(connections);
    served.collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn an_address_that_another_program_has_keeps_no_mail_back() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    // A port that nobody else gets between the two.
    let address = format!("127.0.0.1:{}", port::free()?);
    let first = Served::start(database.url(), &[("MAILROOM_METRICS_ADDRESS", &address)])?;
    let mut command = mailroom_tests::collector::command(database.url())?;
    command.env("MAILROOM_METRICS_ADDRESS", &first.address).env("MAILROOM_BATCH_TIMEOUT", "0");
    let mut second = Collector::start(&mut command)?;
    second.wait_for_log("not serving metrics", 1)?;
    let log = first.collector.stop()?;
    assert!(!log.contains("ERROR"), "{log}");
    register(&client, 1..=3).await?;
    assert_eq!(second.lines()?.next_items(3)?.len(), 3);
    second.wait_for_log("metrics are served", 1)?;
    second.stop()?;
    Ok(())
}

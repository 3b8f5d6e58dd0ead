//! Spans of traces, which a receiver of OTLP gets: their requests are read by the types that
//! OpenTelemetry makes of its protocol.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::{self, Collector, wait_until};
use mailroom_tests::hex::hexadecimal;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::wait_for;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio_postgres::Client;

use crate::any_account::without_accounts;

const ONE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-11111111111111111111111111111111-2222222222222222-00";

/// What has come.
#[derive(Default)]
pub(crate) struct Received {
    spans: Vec<Span>,
    /// Names of the services, and their versions.
    services: BTreeSet<String>,
    bytes: Vec<u8>,
}

/// A receiver of OTLP over HTTP, at a port of its own.
pub(crate) struct Receiver {
    pub(crate) port: u16,
    received: Arc<Mutex<Received>>,
}

impl Receiver {
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let received = Arc::new(Mutex::new(Received::default()));
        let shared = Arc::clone(&received);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(stream, &shared).ok());
            }
        });
        Ok(Self { port, received })
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.received.lock().expect("no thread panics").spans.clone()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.spans().into_iter().map(|span| span.name).collect();
        names.sort();
        names
    }
}

/// Reads requests of a connection until it ends.
fn serve(mut stream: TcpStream, received: &Mutex<Received>) -> Result<()> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8(head)?.to_lowercase();
        ensure!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
        ensure!(head.contains("content-type: application/x-protobuf\r\n"), "{head}");
        let (_, length) = head.split_once("content-length: ").context("a length")?;
        let (length, _) = length.split_once("\r\n").context("a line")?;
        let mut body = vec![0; length.parse()?];
        stream.read_exact(&mut body)?;
        let request = ExportTraceServiceRequest::decode(&body[..])?;
        let mut received = received.lock().expect("no thread panics");
        received.bytes.extend(&body);
        for resource in request.resource_spans {
            for attribute in resource.resource.into_iter().flat_map(|resource| resource.attributes)
            {
                let value = attribute.value.and_then(|value| value.value);
                if let Some(Value::StringValue(text)) = value {
                    received.services.insert(format!("{}={text}", attribute.key));
                }
            }
            for scope in resource.scope_spans {
                received.spans.extend(scope.spans);
            }
        }
        drop(received);
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\n\
                      content-length: 0\r\n\r\n";
        stream.write_all(answer.as_bytes())?;
    }
}

fn collecting(database: &Database, endpoint: &str) -> Result<Command> {
    let mut command = collector::command(database.url())?;
    command.args(["--token-format", "v2", "--batch-limit", "3"]);
    command.args(["--batch-timeout", "200"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
    Ok(command)
}

async fn enqueue(client: &Client, traceparent: Option<&str>) -> Result<i64> {
    let call = "SELECT mailroom.enqueue('invite', 'ada@x.test', 'Ada Byron', traceparent => $1)";
    Ok(client.query_one(call, &[&traceparent]).await?.get(0))
}

/// The trace and the span of a traceparent.
fn ids(traceparent: &str) -> (String, String) {
    let mut parts = traceparent.split('-').skip(1).map(str::to_owned);
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

#[tokio::test]
async fn a_batch_has_spans_with_links_to_the_traces_of_its_mails_and_nothing_secret() -> Result<()>
{
    let receiver = Receiver::start()?;
    let database = without_accounts(Database::create()?)?;
    let client = database.connect().await?;
    let traced = enqueue(&client, Some(ONE)).await?;
    enqueue(&client, None).await?;
    enqueue(&client, Some(OTHER)).await?;
    let endpoint = format!("http://127.0.0.1:{}", receiver.port);
    let mut command = collecting(&database, &endpoint)?;
    let mut collector = Collector::start(command.args(["--line-format", "ndjson"]))?;
    let lines = collector.lines()?;
    let line = lines.next_line()?;
    wait_until(|| receiver.names() == ["claim", "send", "settle", "sign"])?;
    let spans = receiver.spans();
    let claim = spans.iter().find(|span| span.name == "claim").context("it was claimed")?;
    assert!(claim.parent_span_id.is_empty());
    let linked: BTreeSet<_> = claim
        .links
        .iter()
        .map(|link| (hexadecimal(&link.trace_id), hexadecimal(&link.span_id)))
        .collect();
    assert_eq!(linked, BTreeSet::from([ids(ONE), ids(OTHER)]));
    assert!(!linked.iter().any(|(trace, _)| *trace == hexadecimal(&claim.trace_id)));
    let token = &claim.links[0].attributes[0];
    let id = token.value.as_ref().and_then(|value| value.value.clone());
    assert_eq!((&token.key[..], id), ("mailroom.token", Some(Value::IntValue(traced))));
    for span in spans.iter().filter(|span| span.name != "claim") {
        assert_eq!((&span.trace_id, &span.parent_span_id), (&claim.trace_id, &claim.span_id));
        assert!(span.links.is_empty() && span.start_time_unix_nano <= span.end_time_unix_nano);
    }

    // A single mail has its spans in its own trace; one whose trace is not sampled has none.
    enqueue(&client, Some(UNSAMPLED)).await?;
    enqueue(&client, None).await?;
    wait_for(&client, "SELECT count(*) FROM mailroom.queue", 0_i64).await?;
    wait_for(&client, "SELECT count(*) FROM mailroom.leases", 0_i64).await?;
    enqueue(&client, Some(ONE)).await?;
    wait_until(|| receiver.names().len() == 8)?;
    let spans = receiver.spans();
    let claim = spans.iter().filter(|span| span.name == "claim").nth(1).context("a second")?;
    let (trace, parent) = ids(ONE);
    assert_eq!((hexadecimal(&claim.trace_id), hexadecimal(&claim.parent_span_id)), (trace, parent));
    collector.stop()?;
    assert_eq!(receiver.names().len(), 8);

    let all = receiver.received.lock().expect("no thread panics");
    assert!(all.services.contains("service.name=mailroom"), "{:?}", all.services);
    let sent = String::from_utf8_lossy(&all.bytes);
    let batch: serde_json::Value = serde_json::from_str(&line)?;
    for item in batch["items"].as_array().context("items")? {
        for member in ["email", "login", "token", "key"] {
            let secret = item[member].as_str().context("a text")?;
            assert!(!sent.contains(secret), "{member}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_receiver_that_is_away_or_silent_delays_no_mail_and_what_is_dropped_is_counted()
-> Result<()> {
    // One takes connections and never answers, the other one is not there.
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let away = TcpListener::bind("127.0.0.1:0")?;
    let ports = [silent.local_addr()?.port(), away.local_addr()?.port()];
    drop(away);
    for port in ports {
        let database = without_accounts(Database::create()?)?;
        let client = database.connect().await?;
        let endpoint = format!("http://127.0.0.1:{port}");
        let mut command = collecting(&database, &endpoint)?;
        let mut collector = Collector::start(&mut command)?;
        let lines = collector.lines()?;
        collector.wait_until_it_collects()?;
        for _ in 0..30 {
            enqueue(&client, Some(ONE)).await?;
        }
        assert_eq!(lines.next_items(30)?.len(), 30);
        let sent = "SELECT count(*) FROM mailroom.deliveries WHERE state = 'sent'";
        wait_for(&client, sent, 30_i64).await?;
        collector.wait_for_log("spans_dropped", 1)?;
        let began = Instant::now();
        let log = collector.stop()?;
        // A minute is what a busy machine may take; the exporter has one second of it.
        assert!(began.elapsed() < Duration::from_secs(60), "{log}");
        let line = log.lines().find(|line| line.contains("spans_dropped")).context("a line")?;
        assert!(line.contains("count=") && !line.contains("127.0.0.1"), "{line}");
    }
    Ok(())
}

#[tokio::test]
async fn without_a_receiver_or_with_an_invalid_one_mails_are_sent_as_before() -> Result<()> {
    for endpoint in ["", "no address", "ftp://user:hunter2@x.test"] {
        let database = without_accounts(Database::create()?)?;
        let client = database.connect().await?;
        enqueue(&client, Some(ONE)).await?;
        let mut collector = Collector::start(&mut collecting(&database, endpoint)?)?;
        let lines = collector.lines()?;
        assert_eq!(lines.next_items(1)?.len(), 1);
        let sent = "SELECT count(*) FROM mailroom.deliveries WHERE state = 'sent'";
        wait_for(&client, sent, 1_i64).await?;
        let log = collector.stop()?;
        assert!(!log.contains("hunter2"), "{log}");
    }
    Ok(())
}

//! Waking by the write-ahead log beside waking by NOTIFY: how soon a commit is seen, how many
//! commits 16 writers make, and what a reader of the log costs the server for each commit of
//! anybody.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt as _, stream};
use mailroom_tests::postgres::{Cluster, Database};
use rustix::param::clock_ticks_per_second;
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use crate::report::{Report, Table, median, percentile, rounded};
use crate::writers::{Rounds, at_once};

const WRITERS: u32 = 16;

/// The first wake-ups connect, plan and fill caches.
const WARM_UP: u32 = 20;

/// Between two commits, so that nothing is under way any more.
const PAUSE: Duration = Duration::from_millis(10);

/// A wake-up that does not come within this is an error.
const TIMEOUT: Duration = Duration::from_secs(60);

const SETUP: &str = "CREATE TABLE written (number bigint); CREATE PUBLICATION nothing";

/// In a transaction of its own, which must not have written.
const SLOT: &str = "SELECT pg_create_logical_replication_slot('waking', 'pgoutput')";

#[derive(clap::Args)]
pub(crate) struct Wal {
    /// How many commits are waited for, each way
    #[arg(long, value_name = "N", default_value_t = 500)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    commits: u32,

    #[command(flatten)]
    rounds: Rounds,
}

/// How a reader learns of a commit.
#[derive(Clone, Copy)]
enum Way {
    Nothing,
    Notify,
    Log,
}

const WAYS: [(Way, &str, &str); 3] = [
    (Way::Nothing, "nothing", "nobody is told"),
    (Way::Notify, "notify", "NOTIFY, a listener"),
    (Way::Log, "log", "a message in the log, a slot"),
];

impl Way {
    /// The statement whose commit tells of `number`.
    fn statement(self, number: u32) -> String {
        let insert = format!("INSERT INTO written VALUES ({number})");
        match self {
            Self::Nothing => insert,
            Self::Notify => format!("{insert}; NOTIFY waking, '{number}'"),
            Self::Log => {
                format!("{insert}; SELECT pg_logical_emit_message(true, 'waking', '<{number}>')")
            }
        }
    }
}

/// When which number was seen.
type Seen = Receiver<(u32, Instant)>;

/// A reader of the slot, stopped when this is dropped.
struct LogReader {
    child: Child,
    seen: Seen,
}

impl LogReader {
    fn start(server: &Cluster, database: &Database) -> Result<Self> {
        let mut command = Command::new(pg_recvlogical(server));
        command.args(["--slot=waking", "--start", "--file=-", "--fsync-interval=0"]);
        command.args(["--option=proto_version=1", "--option=publication_names=nothing"]);
        command.args(["--option=messages=true", "--dbname"]).arg(database.url());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("pg_recvlogical does not start")?;
        let mut output = child.stdout.take().context("standard output is a pipe")?;
        let (sender, seen) = channel();
        thread::spawn(move || {
            let (mut bytes, mut text) = ([0; 8_192], Vec::new());
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                let now = Instant::now();
                text.extend_from_slice(&bytes[..count]);
                send_numbers(&mut text, now, &sender);
            }
        });
        Ok(Self { child, seen })
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Takes each `<number>` out of what came; what may be the beginning of one stays.
fn send_numbers(text: &mut Vec<u8>, now: Instant, sender: &Sender<(u32, Instant)>) {
    while let Some(end) = text.iter().position(|byte| *byte == b'>') {
        let rest = text.split_off(end + 1);
        let start = text.iter().rposition(|byte| *byte == b'<').map_or(end, |start| start + 1);
        let number = str::from_utf8(&text[start..end]).ok().and_then(|text| text.parse().ok());
        if let Some(number) = number {
            sender.send((number, now)).ok();
        }
        *text = rest;
    }
}

/// The server's own program, or the one of this machine where the server comes without it.
fn pg_recvlogical(server: &Cluster) -> PathBuf {
    let own = server.installation().programs.join("pg_recvlogical");
    if own.exists() { own } else { "pg_recvlogical".into() }
}

/// Listens by a thread of its own, as the reader of the log reads; it ends with the process.
fn listen(database: &Database) -> Result<(Client, Seen)> {
    let url = database.url().to_owned();
    let (sender, seen) = channel();
    let (ready, is_ready) = channel();
    thread::spawn(move || -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let (client, mut connection) = tokio_postgres::connect(&url, NoTls).await?;
            let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
            tokio::spawn(async move {
                client.batch_execute("LISTEN waking").await.ok();
                ready.send(client).ok();
            });
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notification(notification) = message {
                    let number = notification.payload().parse().unwrap_or(u32::MAX);
                    sender.send((number, Instant::now())).ok();
                }
            }
            Ok(())
        })
    });
    Ok((is_ready.recv_timeout(TIMEOUT).context("nobody listens")?, seen))
}

pub(crate) async fn measure(server: &Cluster, options: &Wal) -> Result<Report> {
    let database = Database::create_on(&server.url("postgres"))?;
    let client = database.connect().await?;
    client.batch_execute(SETUP).await?;
    client.batch_execute(SLOT).await?;
    // The connection ends with its client.
    let (_listener, notified) = listen(&database)?;
    let reader = LogReader::start(server, &database)?;
    let by_notify = delays(&client, Way::Notify, &notified, options.commits).await?;
    let by_log = delays(&client, Way::Log, &reader.seen, options.commits).await?;

    let (rounds, duration) = (options.rounds.rounds, options.rounds.duration());
    let mut rates: [Vec<u32>; 3] = Default::default();
    let mut processor = Vec::new();
    for number in 1..=rounds {
        for ((way, _, name), rates) in WAYS.into_iter().zip(&mut rates) {
            let before = walsender_time(&client).await?;
            let (commits, rate) = write(&database, way, duration).await?;
            if matches!(way, Way::Nothing) {
                caught_up(&client).await?;
                let used = walsender_time(&client).await?.saturating_sub(before);
                processor.push(used.as_secs_f64() * 1e6 / f64::from(commits.max(1)));
            }
            rates.push(rate);
            eprintln!("round {number} of {rounds}, {name}: {rate} commits/s");
        }
    }
    Ok(report(server.installation().major, options, [&by_notify, &by_log], &rates, &processor))
}

fn report(
    version: u32,
    options: &Wal,
    delays: [&[f64]; 2],
    rates: &[Vec<u32>; 3],
    processor: &[f64],
) -> Report {
    let title =
        format!("a commit is seen, in ms, {} commits, PostgreSQL {version}", options.commits);
    let mut table = Table::new(&title, &[&"median", &"99 %"]);
    let mut json = json!({ "postgres": version, "commits": options.commits });
    for ((_, key, name), delays) in WAYS.into_iter().skip(1).zip(delays) {
        let [p50, p99] = [50, 99].map(|percent| rounded(percentile(delays, percent), 3));
        table.row(name, &[&p50, &p99]);
        json[key] = json!({ "p50_ms": p50, "p99_ms": p99 });
    }
    table.heading(&format!("commits/s of {WRITERS} writers, median of {}", options.rounds.rounds));
    for ((_, key, name), rates) in WAYS.into_iter().zip(rates) {
        let rate = median(rates);
        table.row(name, &[&rate]);
        json[format!("{key}_tps")] = Value::from(rate);
    }
    let used = rounded(median(processor), 1);
    table.heading("what the slot costs for every commit of the database, in µs of processor");
    table.row("the server's sender of the log", &[&used]);
    json["walsender_us_per_commit"] = json!(used);
    Report { table, json }
}

/// From the answer to each commit until it is seen, in milliseconds. It may be seen before.
async fn delays(client: &Client, way: Way, seen: &Seen, commits: u32) -> Result<Vec<f64>> {
    let mut milliseconds = Vec::new();
    for number in 0..WARM_UP + commits {
        client.batch_execute(&way.statement(number)).await?;
        let committed = Instant::now();
        let at = until_seen(seen, number).await?;
        if number >= WARM_UP {
            milliseconds.push(at.saturating_duration_since(committed).as_secs_f64() * 1_000.0);
        }
        sleep(PAUSE).await;
    }
    Ok(milliseconds)
}

/// Lets the listener's task run while it waits.
async fn until_seen(seen: &Seen, number: u32) -> Result<Instant> {
    let began = Instant::now();
    loop {
        while let Ok((came, at)) = seen.try_recv() {
            if came == number {
                return Ok(at);
            }
        }
        ensure!(began.elapsed() < TIMEOUT, "commit {number} is not seen within {TIMEOUT:?}");
        sleep(Duration::from_micros(200)).await;
    }
}

/// Commits of several connections at once. Returns how many, and how many per second.
async fn write(database: &Database, way: Way, duration: Duration) -> Result<(u32, u32)> {
    at_once(database, WRITERS, |client, _| async move {
        let (start, mut commits) = (Instant::now(), 0);
        while start.elapsed() < duration {
            client.batch_execute(&way.statement(commits)).await?;
            commits += 1;
        }
        Ok(commits)
    })
    .await
}

/// Waits until the reader of the log has all that was written.
async fn caught_up(client: &Client) -> Result<()> {
    let now: String = client.query_one("SELECT pg_current_wal_lsn()::text", &[]).await?.get(0);
    let query = format!("SELECT count(*) FROM pg_stat_replication WHERE sent_lsn >= '{now}'");
    let began = Instant::now();
    while client.query_one(&query, &[]).await?.get::<_, i64>(0) == 0 {
        ensure!(began.elapsed() < TIMEOUT, "the log is not read to its end within {TIMEOUT:?}");
        sleep(PAUSE).await;
    }
    Ok(())
}

/// How long the process that sends the log has used a processor.
async fn walsender_time(client: &Client) -> Result<Duration> {
    let query = "SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'waking'";
    let process: Option<i32> = client.query_one(query, &[]).await?.get(0);
    let process = process.context("nobody reads the slot")?;
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // Behind the name, which may have blanks: proc_pid_stat(5), fields 14 and 15.
    let (_, fields) = text.rsplit_once(')').context("the process has a name")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 1_000 / clock_ticks_per_second()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_also_where_they_come_in_pieces() {
        let (sender, receiver) = channel();
        let mut text = Vec::new();
        for piece in [&b"\x00M<1>\nB\xff<"[..], b"2", b"2>C<3><x>", b"<4"] {
            text.extend_from_slice(piece);
            send_numbers(&mut text, Instant::now(), &sender);
        }
        let numbers: Vec<u32> = receiver.try_iter().map(|(number, _)| number).collect();
        assert_eq!((numbers, text), (vec![1, 22, 3], b"<4".to_vec()));
    }
}

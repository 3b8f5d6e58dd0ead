//! Mail servers that are away: nothing is lost, nothing is given up, and everything goes out when
//! they are back.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mailroom_tests::collector::{Collector, PATIENCE, wait_until};
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::register;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio_postgres::Client;

use super::test_sender::TestSender;
use super::{command, leased, reason, state, wait_for_state};

/// Sends mails, refuses each of them or is unavailable, as the file `mode` says; refuses those
/// whose ids are in `poison` always.
const SCRIPT: &str = r#"
echo $$ >> "$1/processes"
while read -r line; do
    name=${line#*batch\":\"}; ok=; retry=
    for id in $(grep -o '"id":[0-9]*' <<< "$line" | tr -dc '0-9\n'); do
        case $(< "$1/mode") in
            away) ;;
            ok) if grep -qx $id "$1/poison"; then
                    retry+=",{\"id\":$id}"
                else
                    ok+=",$id"
                    echo $id >> "$1/sent"
                fi ;;
            refuse) retry+=",{\"id\":$id,\"reason\":\"429 slow down\"}" ;;
        esac
    done
    away=; if [ "$(< "$1/mode")" = away ]; then away=',"unavailable":{"reason":"421 closed"}'; fi
    echo "{\"batch\":\"${name:0:36}\",\"ok\":[${ok#,}],\"retry\":[${retry#,}]$away}"
done
"#;

struct MailServer(TempDir);

impl MailServer {
    fn new(mode: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        for (file, text) in [("script", SCRIPT), ("mode", mode), ("poison", ""), ("sent", "")] {
            fs::write(folder.path().join(file), text)?;
        }
        Ok(Self(folder))
    }

    fn set(&self, file: &str, text: &str) -> Result<()> {
        // At once, so that no half of it is read.
        fs::write(self.0.path().join("new"), text)?;
        Ok(fs::rename(self.0.path().join("new"), self.0.path().join(file))?)
    }

    /// The ids whose mails were sent, in order.
    fn sent(&self) -> Vec<i64> {
        let text = fs::read_to_string(self.0.path().join("sent")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Kills what runs of its senders, as soon as one does.
    fn kill_senders(&self) -> Result<()> {
        let killed = wait_until(|| {
            let known = fs::read_to_string(self.0.path().join("processes")).unwrap_or_default();
            let processes = known.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?));
            processes.filter(|process| kill_process(*process, Signal::KILL).is_ok()).count() > 0
        });
        killed.context("no sender is there to be killed")
    }

    fn command(&self, database: &Database) -> Result<Command> {
        let mut command = command(database, &TestSender::new()?)?;
        let folder = self.0.path().display();
        command.args(["--sender", &format!("bash {folder}/script {folder}")]);
        Ok(command)
    }
}

/// Recoveries of accounts that are active.
async fn recover(client: &Client, count: i32) -> Result<BTreeSet<i64>> {
    let people = client.accounts(numbered("lost", 1..=count)).active().insert().await?;
    let tokens = client.token().recovery().insert_for_each(&people).await?;
    Ok(tokens.into_iter().collect())
}

async fn count(client: &Client, query: &str) -> Result<i64> {
    Ok(client.query_one(query, &[]).await?.get(0))
}

const FAILED: &str = "SELECT count(*) FROM mailroom.delivery_attempts \
                      WHERE outcome::text IN ('retry', 'dead', 'lapsed')";
const HANDED_OVER: &str = "SELECT count(*) FROM mailroom.delivery_attempts";
const ALL: &str = "SELECT id FROM tokens ORDER BY id";

/// Every token is sent, once.
async fn wait_until_all_are_sent(client: &Client, server: &MailServer) -> Result<()> {
    let all: Vec<i64> = client.query(ALL, &[]).await?.iter().map(|row| row.get(0)).collect();
    wait_for_state(client, &all, "sent").await?;
    let mut sent = server.sent();
    sent.sort_unstable();
    assert_eq!(sent, all);
    Ok(())
}

#[tokio::test]
async fn a_sender_that_is_unavailable_costs_no_token_an_attempt_and_recoveries_go_first_afterwards()
-> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=60).await?;
    let server = MailServer::new("away")?;
    let mut command = server.command(&database)?;
    let collector =
        Collector::start(command.args(["--max-attempts", "1", "--log-format", "json"]))?;
    collector.wait_for_log("the sender is unavailable: 421 closed", 1)?;
    let began = Instant::now();
    let recoveries = recover(&client, 5).await?;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!((count(&client, FAILED).await?, server.sent().len()), (0, 0));
    // A batch a trial, ever more rarely, and every two seconds at most in the end.
    let handed_over = count(&client, HANDED_OVER).await?;
    let most = 100 + 5 * i64::try_from(began.elapsed().as_secs())?;
    assert!((1..=most).contains(&handed_over), "{handed_over}, not {most}");
    server.set("mode", "ok")?;
    wait_until_all_are_sent(&client, &server).await?;
    let last = server.sent().iter().rposition(|id| recoveries.contains(id));
    assert!(last.is_some_and(|last| last < 20), "{:?} of {recoveries:?}", server.sent());
    let log = collector.stop()?;
    assert_eq!(log.matches("not sending, trying again").count(), 1, "{log}");
    assert!(log.contains("\"sending again\"") && !log.contains("tokens_dead"), "{log}");
    Ok(())
}

#[tokio::test]
async fn a_sender_that_answers_only_retry_to_everything_is_taken_for_unavailable() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=60).await?;
    let server = MailServer::new("refuse")?;
    let mut command = server.command(&database)?;
    let collector = Collector::start(command.args(["--max-attempts", "4", "--backoff", "100ms"]))?;
    collector.wait_for_log(
        "the sender refuses everything, as if it were unavailable: 429 slow down",
        1,
    )?;
    // The first of them counted, and no more. On a busy machine some are on their way for long.
    let (began, mut before, mut failed) = (Instant::now(), -1, count(&client, FAILED).await?);
    while failed != before {
        assert!(began.elapsed() < PATIENCE, "{failed} counted, and more each time");
        tokio::time::sleep(Duration::from_secs(6)).await;
        before = std::mem::replace(&mut failed, count(&client, FAILED).await?);
    }
    assert!(failed <= 50, "{failed}");
    server.set("mode", "ok")?;
    wait_until_all_are_sent(&client, &server).await?;
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn a_few_refused_tokens_do_not_delay_others_on_a_quiet_queue() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let server = MailServer::new("ok")?;
    server.set("poison", "1\n2\n3\n4\n")?;
    let mut command = server.command(&database)?;
    // So that each refused token is a batch of its own.
    let collector = Collector::start(command.args(["--backoff", "100ms", "--batch-limit", "1"]))?;
    for number in 1..=4 {
        register(&client, number..=number).await?;
    }
    collector.wait_for_log("the sender refuses everything", 1)?;
    for number in 5..=7 {
        register(&client, number..=number).await?;
        wait_until(|| server.sent().contains(&i64::from(number)))?;
    }
    assert_eq!(server.sent(), [5, 6, 7]);
    for id in 1..=4 {
        assert_ne!(state(&client, id).await?, "dead");
    }
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn refusals_are_bounded_and_logged_where_a_maximum_is_set() -> Result<()> {
    for (bound, expected) in [(Some("3"), "dead"), (None, "queued")] {
        let database = Database::migrated()?;
        let client = database.connect().await?;
        register(&client, 1..=1).await?;
        let server = MailServer::new("ok")?;
        server.set("poison", "1\n")?;
        let mut command = server.command(&database)?;
        command.args(["--backoff", "100ms"]);
        command.args(bound.into_iter().flat_map(|bound| ["--max-attempts", bound]));
        let collector = Collector::start(&mut command)?;
        while count(&client, HANDED_OVER).await? < 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let given_up = "WARN tokens are given up and get no mail: token 1: no reason given (after \
                        3 attempts) count=1 ids=[1] attempts=3 put_back=\"mailroom retry 1\"";
        if expected == "dead" {
            wait_for_state(&client, &[1], "dead").await?;
            collector.wait_for_log(given_up, 1)?;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        let state = state(&client, 1).await?;
        assert!(state == expected || expected != "dead" && state == "leased", "{state}");
        assert_eq!(collector.stop()?.contains("given up"), expected == "dead");
    }
    Ok(())
}

#[tokio::test]
async fn an_answer_can_hold_all_verdicts_and_its_batch_is_settled_at_once() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=6).await?;
    let mut sender = TestSender::new()?;
    let collector = Collector::start(&mut command(&database, &sender)?)?;
    sender.pass_the_trial()?;
    let batch = sender.next_batch()?;
    assert_eq!(batch.ids(), [2, 3, 4, 5, 6]);
    sender.answer(
        &batch,
        concat!(
            r#""ok":[2],"retry":[{"id":3,"after_ms":3600000}],"dead":[{"id":4,"reason":"550"}],"#,
            r#""unavailable":{"after_ms":40000,"reason":"421 <ada@example.test> later"}"#,
        ),
    )?;
    wait_for_state(&client, &[2], "sent").await?;
    assert_eq!(
        (state(&client, 3).await?, state(&client, 4).await?),
        ("queued".into(), "dead".into())
    );
    assert_eq!(reason(&client, 4).await?, "550");
    let query = "SELECT token, attempts, failures FROM mailroom.queue \
                 WHERE due_at <= mailroom.clock() ORDER BY token";
    let rows = client.query(query, &[]).await?;
    let waiting: Vec<(i64, i32, i16)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    assert_eq!(waiting, [(5, 1, 0), (6, 1, 0)]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sender.unseen()?, 0);
    let trial = sender.next_batch()?;
    assert_eq!((trial.ids(), trial.attempts()), (vec![5, 6], vec![2, 2]));
    sender.answer(&trial, "\"ok\":\"all\"")?;
    wait_for_state(&client, &[5, 6], "sent").await?;
    let log = collector.stop()?;
    assert!(log.contains("the sender is unavailable: 421 [address] later"), "{log}");
    Ok(())
}

#[tokio::test]
async fn kills_during_an_outage_lose_nothing_and_send_nothing_twice() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=60).await?;
    let servers = [MailServer::new("away")?, MailServer::new("refuse")?];
    let start = |server: &MailServer| {
        let mut command = server.command(&database)?;
        Collector::start(command.args([
            "--lease",
            "60s",
            "--sender-timeout",
            "30s",
            "--backoff",
            "100ms",
        ]))
    };
    let mut collectors = [start(&servers[0])?, start(&servers[1])?];
    for round in 0..4 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let which = round % 2;
        servers[which].kill_senders()?;
        let next = start(&servers[which])?;
        std::mem::replace(&mut collectors[which], next).kill()?;
    }
    assert_eq!(count(&client, "SELECT count(*) FROM mailroom.dead_letters").await?, 0);
    for server in &servers {
        server.set("mode", "ok")?;
    }
    let all: Vec<i64> = client.query(ALL, &[]).await?.iter().map(|row| row.get(0)).collect();
    wait_for_state(&client, &all, "sent").await?;
    let mut sent = servers.iter().flat_map(MailServer::sent).collect::<Vec<_>>();
    sent.sort_unstable();
    assert_eq!(sent, all);
    for collector in collectors {
        collector.stop()?;
    }
    Ok(())
}

#[tokio::test]
async fn a_collector_that_is_stopped_during_an_outage_leaves_everything_in_the_queue() -> Result<()>
{
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=30).await?;
    for mode in ["away", "refuse"] {
        let server = MailServer::new(mode)?;
        let collector = Collector::start(&mut server.command(&database)?)?;
        collector.wait_for_log("not sending, trying again", 1)?;
        collector.stop()?;
        assert_eq!(leased(&client).await?, 0);
        assert_eq!(count(&client, "SELECT count(*) FROM mailroom.queue").await?, 30);
        assert!(server.sent().is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn a_batch_for_which_a_sender_always_calls_itself_unavailable_is_no_outage_for_the_others()
-> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=60).await?;
    let folder = tempfile::tempdir()?;
    let script = r#"while read -r line; do
        name=${line#*batch\":\"}; verdict='"ok":"all"'
        if grep -q '"id":1,' <<< "$line"; then
            verdict='"unavailable":{"reason":"cannot be read"}'
        fi
        echo "{\"batch\":\"${name:0:36}\",$verdict}"
    done"#;
    fs::write(folder.path().join("script"), script)?;
    let mut command = command(&database, &TestSender::new()?)?;
    let script = format!("bash {}/script", folder.path().display());
    let collector = Collector::start(command.args(["--sender", &script, "--batch-limit", "20"]))?;
    wait_for_state(&client, &(2..=60).collect::<Vec<_>>(), "sent").await?;
    assert_eq!(count(&client, FAILED).await?, 0);
    collector.stop()?;
    Ok(())
}

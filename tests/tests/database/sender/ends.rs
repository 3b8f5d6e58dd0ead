//! Senders that end, hang or never begin.

use std::fs;
use std::time::Duration;

use anyhow::Result;
use mailroom_tests::collector::{self, Collector, KEY};
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::register;
use mailroom_tests::stopwatch::Stopwatch;
use rustix::process::Signal;

use super::test_sender::TestSender;
use super::{command, leased, state, wait_for_state};

#[tokio::test]
async fn a_sender_that_cannot_work_is_logged_and_costs_no_token_an_attempt() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=20).await?;
    for (sender, logged) in [
        (
            "/nowhere/send --key hunter2",
            "the sender `send` cannot be started: /nowhere/send: No such file or directory",
        ),
        (
            "no-such-program --key hunter2",
            "cannot be started: no-such-program, looked for in PATH: No such file or directory",
        ),
        (
            "/etc/passwd --key hunter2",
            "the sender `passwd` cannot be started: /etc/passwd: Permission denied",
        ),
        ("false --key hunter2", "the sender `false` has ended (exit status: 1)"),
    ] {
        let mut command = command(&database, &TestSender::new()?)?;
        let collector = Collector::start(command.args(["--sender", sender]))?;
        collector.wait_for_log(logged, 1)?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let log = collector.stop()?;
        assert_eq!(log.matches("not sending").count(), 1, "{log}");
        assert!(!log.contains("hunter2"), "{log}");
        let query = "SELECT count(*) FROM mailroom.queue WHERE attempts = 0 AND failures = 0";
        assert_eq!(client.query_one(query, &[]).await?.get::<_, i64>(0), 20);
        let handed_over =
            client.query_one("SELECT count(*) FROM mailroom.delivery_attempts", &[]).await?;
        assert_eq!(handed_over.get::<_, i64>(0), 0);
    }
    Ok(())
}

#[test]
fn a_script_without_its_interpreter_is_logged() -> Result<()> {
    let database = Database::migrated()?;
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("send");
    std::fs::write(&script, "#!/opt/python9/bin/python -u\nprint()\n")?;
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let mut command = command(&database, &TestSender::new()?)?;
    let collector = Collector::start(command.arg("--sender").arg(&script))?;
    collector.wait_for_log(
        &format!(
            "{} exists, but its interpreter /opt/python9/bin/python does not",
            script.display()
        ),
        1,
    )?;
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn unanswered_tokens_of_a_killed_sender_go_out_again_with_a_higher_attempt() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=5).await?;
    let mut sender = TestSender::new()?;
    let collector = Collector::start(&mut command(&database, &sender)?)?;
    sender.pass_the_trial()?;
    let batch = sender.next_batch()?;
    sender.answer(&batch, "\"ok\":[2,3]")?;
    // What was written before a line that is read was read.
    sender.write_line("no answer")?;
    collector.wait_for_log("is ignored", 1)?;
    sender.signal(Signal::KILL)?;
    collector.wait_for_log("(signal: 9 (SIGKILL)) and owed answers for 1 batch,", 1)?;
    wait_for_state(&client, &[2, 3], "sent").await?;
    let trial = sender.pass_the_trial()?;
    assert_eq!((trial.ids(), trial.attempts()), (vec![4], vec![2]));
    let rest = sender.next_batch()?;
    assert_eq!((rest.ids(), rest.attempts()), (vec![5], vec![2]));
    sender.answer(&rest, "\"ok\":\"all\"")?;
    wait_for_state(&client, &[4, 5], "sent").await?;
    collector.wait_for_log("sending again", 1)?;
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn a_token_that_takes_long_keeps_no_others_from_a_new_sender_and_is_to_blame_if_that_ends()
-> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=4).await?;
    let mut sender = TestSender::new()?;
    let collector = Collector::start(&mut command(&database, &sender)?)?;
    let slow = sender.next_batch()?;
    let working = format!("{{\"working\":[\"{}\"]}}", slow.name);
    for _ in 0..600 {
        if sender.unseen()? > 0 {
            break;
        }
        sender.write_line(&working)?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let next = sender.pass_the_trial()?;
    let rest = sender.next_batch()?;
    assert_eq!([slow.ids(), next.ids(), rest.ids()], [vec![1], vec![2], vec![3, 4]]);
    sender.signal(Signal::KILL)?;
    let mut again = sender.pass_the_trial()?.ids();
    while again.len() < 3 {
        let batch = sender.next_batch()?;
        sender.answer(&batch, "\"ok\":\"all\"")?;
        again.extend(batch.ids());
    }
    wait_for_state(&client, &[1, 2, 3, 4], "sent").await?;
    let first =
        "SELECT outcome::text FROM mailroom.delivery_attempts WHERE attempt = 1 ORDER BY token";
    let first: Vec<String> = client.query(first, &[]).await?.iter().map(|row| row.get(0)).collect();
    assert_eq!(first, ["retry", "sent", "unanswered", "unanswered"]);
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn a_frozen_sender_is_ended_after_its_timeout_and_another_one_sends() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=3).await?;
    let mut sender = TestSender::new()?;
    let mut command = command(&database, &sender)?;
    let collector =
        Collector::start(command.args(["--sender-timeout", "30s", "--backoff", "100ms"]))?;
    sender.pass_the_trial()?;
    let batch = sender.next_batch()?;
    sender.signal(Signal::STOP)?;
    collector.wait_for_log("is ended: it has answered nothing for 30s", 1)?;
    sender.wait_for_start(2)?;
    let trial = sender.pass_the_trial()?;
    let rest = sender.next_batch()?;
    // Each after a pause of its own.
    let mut again = [trial.ids(), rest.ids()].concat();
    again.sort_unstable();
    assert_eq!((again, trial.attempts(), rest.attempts()), (vec![2, 3], vec![2], vec![2]));
    sender.answer(&batch, "\"dead\":[{\"id\":2},{\"id\":3}]")?;
    sender.answer(&rest, "\"ok\":\"all\"")?;
    wait_for_state(&client, &[1, 2, 3], "sent").await?;
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn a_row_that_hangs_every_sender_becomes_a_dead_letter_and_others_go_out() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=3).await?;
    let mut command = command(&database, &TestSender::new()?)?;
    let children = tempfile::NamedTempFile::new()?;
    // It reads everything, and says nothing more once it has read of that one. Neither it nor its
    // child ends by SIGTERM.
    let script = format!("trap \"\" TERM; sleep 600 & echo $! >> {}; ", children.path().display())
        + "while read -r line; do case $line in *user3@*) while read -r line; do :; done;; esac; \
           name=${line#*batch\\\":\\\"}; echo \
           \"{\\\"batch\\\":\\\"${name:0:36}\\\",\\\"ok\\\":\\\"all\\\"}\"; done";
    command.args(["--sender", &format!("bash -c '{script}'"), "--sender-timeout", "10s"]);
    let collector = Collector::start(command.args(["--max-attempts", "2", "--backoff", "100ms"]))?;
    wait_for_state(&client, &[3], "dead").await?;
    assert_eq!(
        super::reason(&client, 3).await?,
        "the sender is ended: it has answered nothing for 10s"
    );
    // Every hang counted, also the one over a whole batch.
    let attempts = "SELECT count(*), max(attempt) FROM mailroom.delivery_attempts WHERE token = 3";
    let row = client.query_one(attempts, &[]).await?;
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i32>(1)), (2, 2));
    wait_for_state(&client, &[1, 2], "sent").await?;
    collector.stop()?;
    let children = fs::read_to_string(&children)?;
    assert!(children.lines().count() >= 2, "{children}");
    for child in children.lines() {
        let status = || fs::read_to_string(format!("/proc/{child}/stat"));
        collector::wait_until(|| status().map_or(true, |status| status.contains(") Z ")))?;
    }
    Ok(())
}

#[tokio::test]
async fn a_row_that_ends_every_sender_is_tried_after_growing_pauses_and_the_others_go_out()
-> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=40).await?;
    let mut command = command(&database, &TestSender::new()?)?;
    let script = "while read -r line; do case $line in *user3@*) exit 9;; esac; \
                  name=${line#*batch\\\":\\\"}; echo \
                  \"{\\\"batch\\\":\\\"${name:0:36}\\\",\\\"ok\\\":\\\"all\\\"}\"; done";
    // Long enough that it does not come back among the last of the others, each of which would then
    // wait for a sender of its own.
    command.args(["--backoff", "30s"]);
    let collector = Collector::start(command.args(["--sender", &format!("bash -c '{script}'")]))?;
    let others: Vec<i64> = (1..=40).filter(|id| *id != 3).collect();
    wait_for_state(&client, &others, "sent").await?;
    let query = "SELECT count(*) FROM mailroom.delivery_attempts WHERE token = 3 \
                 AND outcome::text = 'retry'";
    assert!(client.query_one(query, &[]).await?.get::<_, i64>(0) >= 1);
    let query = "SELECT count(*) FROM mailroom.delivery_attempts WHERE token <> 3 \
                 AND outcome::text = 'retry'";
    assert_eq!(client.query_one(query, &[]).await?.get::<_, i64>(0), 0);
    let log = collector.stop()?;
    assert!(log.contains("the sender `bash` has ended (exit status: 9)"), "{log}");
    Ok(())
}

#[tokio::test]
async fn a_sender_that_closes_a_pipe_is_replaced() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    for (redirection, logged) in [
        ("exec >&-", "is ended: it has closed its standard output"),
        // What was written before it closed the pipe is lost without a sign; then the sender's
        // timeout is what notices.
        ("exec <&-", "is ended: it has "),
    ] {
        register(&client, 1..=3).await?;
        let folder = tempfile::tempdir()?;
        let mark = folder.path().join("first");
        let mark = mark.display();
        // The first one closes a pipe and stays; the second one works.
        let script = format!(
            "if mkdir {mark}; then {redirection}; sleep 1000; fi; while read -r line; do \
             name=${{line#*batch\\\":\\\"}}; echo \
             \"{{\\\"batch\\\":\\\"${{name:0:36}}\\\",\\\"ok\\\":\\\"all\\\"}}\"; done"
        );
        let mut command = command(&database, &TestSender::new()?)?;
        command.args(["--sender-timeout", "30s"]);
        let collector =
            Collector::start(command.args(["--sender", &format!("bash -c '{script}'")]))?;
        collector.wait_for_log(logged, 1)?;
        let query = "SELECT id FROM tokens";
        let ids: Vec<i64> = client.query(query, &[]).await?.iter().map(|row| row.get(0)).collect();
        wait_for_state(&client, &ids, "sent").await?;
        collector.stop()?;
        client.batch_execute("DELETE FROM accounts").await?;
    }
    Ok(())
}

#[tokio::test]
async fn at_sigterm_the_sender_finishes_what_it_has_and_the_rest_stays_in_the_queue() -> Result<()>
{
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=100).await?;
    let mut sender = TestSender::new()?;
    let mut command = command(&database, &sender)?;
    let collector = Collector::start(command.args(["--sender-timeout", "20s", "--prefetch", "2"]))?;
    sender.pass_the_trial()?;
    let (first, second) = (sender.next_batch()?, sender.next_batch()?);
    collector.signal(Signal::TERM)?;
    collector.wait_for_log("finishing what is on its way", 1)?;
    let start = Stopwatch::start();
    tokio::time::sleep(Duration::from_millis(500)).await;
    sender.answer(&first, "\"ok\":\"all\"")?;
    wait_for_state(&client, &first.ids(), "sent").await?;
    // It never answers the other one, and does not end when its input does.
    let (status, log) = collector.wait()?;
    assert_eq!(status.code(), Some(0), "{log}");
    // Twenty seconds are promised, and a machine that does something else takes longer.
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert_eq!(leased(&client).await?, 0);
    for id in second.ids() {
        assert_eq!(state(&client, id).await?, "queued");
    }
    let query = "SELECT count(*) FROM mailroom.queue";
    assert_eq!(client.query_one(query, &[]).await?.get::<_, i64>(0), 89);
    Ok(())
}

#[tokio::test]
async fn a_sender_ends_with_its_collector_however_that_ends() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=3).await?;
    let mut sender = TestSender::new()?;
    let script = format!(
        "bash -c 'cat > /dev/null; touch \"$0/over\"' {}",
        tempfile::tempdir()?.keep().display()
    );
    let over = script.rsplit(' ').next().unwrap_or_default().to_owned() + "/over";
    let collector = Collector::start(command(&database, &sender)?.args(["--sender", &script]))?;
    wait_for_state(&client, &[1], "leased").await?;
    collector.kill()?;
    collector::wait_until(|| fs::exists(&over).unwrap_or_default())?;

    let collector = Collector::start(&mut command(&database, &sender)?)?;
    sender.next_batch()?;
    collector.signal(Signal::TERM)?;
    collector.wait_for_log("a second signal ends at once", 1)?;
    collector.signal(Signal::TERM)?;
    assert_eq!(collector.wait()?.0.code(), Some(1));
    // It does not end by itself when its input does.
    collector::wait_until(|| sender.has_ended())?;
    Ok(())
}

#[tokio::test]
async fn a_sender_gets_neither_the_keys_nor_the_database() -> Result<()> {
    let database = Database::migrated()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("environment");
    let mut command = command(&database, &TestSender::new()?)?;
    // It ends, so that another one is told the actions if the database was too busy to name them
    // before the first one was started.
    let script = format!("bash -c 'env > {0}.part; mv {0}.part {0}'", file.display());
    command
        .args(["--sender", &script])
        .env("PGPASSWORD", "topsecret")
        .env("SMTP_SERVER", "mail.example.test");
    let collector = Collector::start(&mut command)?;
    let mut environment = String::new();
    collector::wait_until(|| {
        environment = fs::read_to_string(&file).unwrap_or_default();
        environment.contains("MAILROOM_ACTIONS=")
    })?;
    // The names of the actions alone are said.
    let (said, environment): (Vec<_>, Vec<_>) =
        environment.lines().partition(|line| line.starts_with("MAILROOM_ACTIONS="));
    assert_eq!(said, ["MAILROOM_ACTIONS=activate,recover"]);
    let environment = environment.join("\n");
    for secret in [KEY, database.name(), "MAILROOM_", "topsecret"] {
        assert!(!environment.contains(secret), "{secret} is in {environment}");
    }
    assert!(environment.contains("SMTP_SERVER=mail.example.test"), "{environment}");
    collector.stop()?;
    Ok(())
}

use anyhow::{Context as _, Result};
use mailroom_tests::postgres::{Cluster, Database, Shutdown};
use mailroom_tests::rows::register;
use serde_json::{Value, json};

use super::run;

/// Something of everything.
const SCENE: &str = "
    UPDATE mailroom.queue SET due_at = now() - interval '90 seconds' WHERE token = 1;
    UPDATE mailroom.queue SET due_at = now() + interval '1 hour', attempts = 1, failures = 1
        WHERE token IN (2, 3);
    INSERT INTO tokens (account, action) VALUES (4, 'password_recovery');
    DELETE FROM mailroom.queue WHERE token BETWEEN 5 AND 10;
    INSERT INTO mailroom.leases (batch, collector_id, claimed_at, renewed_at, ends_at, due_at,
        tokens, attempts, failures, priorities, secrets, codes) VALUES
        (gen_random_uuid(), 7, now() - interval '12 minutes', now() - interval '2 minutes', now()
            - interval '1 minute', now(),
            '{5,6}', '{1,1}', '{0,0}', '{1,1}', '{a,b}', '{NULL,NULL}'),
        (gen_random_uuid(), 8, now(), now(), now() + interval '1 minute', now(), '{7}', '{1}',
            '{0}', '{1}', '{a}', '{NULL}');
    INSERT INTO mailroom.queue (token, due_at, put_off_at, deferrals, priority, secret)
        VALUES (8, now() + interval '1 minute', now(), 3, 1, 'a');
    INSERT INTO mailroom.dead_letters (token, died_at, expires_at, attempts, failures, priority,
        reason)
        VALUES (9, now(), extract(epoch FROM now()) + 600, 8, 8, 1, 'no such mailbox');
    INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome) VALUES
        ('{10}', now() - interval '2 hours', 0, 'expired'), ('{1000}', now(), 0, 'expired'),
            ('{1001}', now(), 1, 'sent'),
        ('{1002}', now() - interval '30 minutes', 1, 'sent'), ('{1003}', now() - interval
            '61 minutes', 1, 'sent')";

#[tokio::test]
async fn the_figures_of_a_standby_say_that_they_are_one_s() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    cluster.stop(Shutdown::Fast)?;
    cluster.return_fenced()?;
    let said = run(&database, &["status", "--json"])?;
    assert_eq!(said.code, Some(2), "{}", said.errors);
    let status: Value = serde_json::from_str(&said.output)?;
    let warning = status["warnings"][0].as_str().context("no warning")?;
    assert!(warning.starts_with("this server is a standby"), "{warning}");
    Ok(())
}

#[tokio::test]
async fn an_empty_queue_is_all_zeros() -> Result<()> {
    let database = Database::migrated()?;
    let status: Value = serde_json::from_str(&run(&database, &["status", "--json"])?.success()?)?;
    assert_eq!(
        status["queue"],
        json!({ "depth": 0, "first_due": 0, "second_due": 0, "later": 0, "oldest_due_ms": null })
    );
    assert_eq!(
        status["leases"],
        json!({ "batches": 0, "tokens": 0, "lapsed": 0, "oldest_ms": null })
    );
    assert_eq!(status["expired"], json!({ "logged": 0, "last_hour": 0 }));
    let [deferred, dead, suppressed] =
        ["deferred", "dead_letters", "suppressed"].map(|field| &status[field]);
    assert_eq!([deferred, dead, suppressed], [0; 3].map(|n| json!(n)).each_ref());
    let text = run(&database, &["status"])?.success()?;
    assert!(text.starts_with("waiting   0 tokens\n"), "{text}");
    let name = status["server"]["database"].as_str().context("no database")?;
    assert!(text.contains(&format!("\nserver    database {name}")), "{text}");
    Ok(())
}

#[tokio::test]
async fn depth_age_leases_dead_and_expired_are_shown() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=10).await?;
    client.batch_execute(SCENE).await?;

    let said = run(&database, &["status", "--json"])?;
    let status: Value = serde_json::from_str(&said.output)?;
    let alarms = [
        "queue.oldest_due_ms",
        "leases.oldest_ms",
        "leases.lapsed",
        "dead.last_hour",
        "expired.last_hour",
    ];
    assert_eq!((said.code, &status["alarms"]), (Some(2), &json!(alarms)));
    assert_eq!(
        [&status["levels"]["leases.lapsed"], &status["levels"]["expired.last_hour"]],
        ["warning", "critical"]
    );
    assert_eq!(status["sent"], json!({ "last_minute": 1, "last_hour": 2 }));
    let queue = &status["queue"];
    let counts = ["depth", "first_due", "second_due", "later"].map(|field| &queue[field]);
    assert_eq!(counts, [&json!(5), &json!(1), &json!(2), &json!(2)], "{status}");
    let oldest = queue["oldest_due_ms"].as_i64();
    assert!(oldest.is_some_and(|oldest| (90_000..300_000).contains(&oldest)), "{status}");
    let leases = &status["leases"];
    assert_eq!(
        [&leases["batches"], &leases["tokens"], &leases["lapsed"]],
        [2, 3, 1].map(|n| json!(n)).each_ref()
    );
    assert!(leases["oldest_ms"].as_i64().is_some_and(|oldest| oldest >= 720_000), "{status}");
    assert_eq!([&status["deferred"], &status["dead_letters"]], [&json!(1), &json!(1)]);
    assert_eq!(status["expired"], json!({ "logged": 2, "last_hour": 1 }));

    let said = run(&database, &["status"])?;
    assert_eq!(said.code, Some(2));
    let text = said.output;
    for line in [
        "waiting   5 tokens, the oldest due for ",
        "          3 due: 1 of priority 0, 2 of priority 1; 2 later\n",
        "leased    3 tokens in 2 batches, the oldest claimed for 12m; 1 lapsed\n",
        "deferred  1 token, until their subject is eligible or they can be signed\n",
        "dead      1 token, 1 of them within the last hour; 0 to suppressed addresses\n",
        "expired   2 tokens unsent, 1 of them within the last hour\n",
        "sent      1 token within the last minute, 2 within the last hour\n",
        "alarm     queue.oldest_due_ms (warning)\n",
        "alarm     expired.last_hour (critical)\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    Ok(())
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "a row for each alarm")]
async fn each_documented_alarm_ends_status_with_its_level_and_nothing_else_does() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let lease = |claimed: &str, ends: &str| {
        format!(
            "INSERT INTO mailroom.leases (batch, collector_id, claimed_at, renewed_at, ends_at, \
             due_at, tokens, attempts, failures, priorities, secrets, codes) \
             VALUES (gen_random_uuid(), 7, \
             now() - interval '{claimed}', now(), now() + interval '{ends}', now(), '{{1}}', \
             '{{1}}', '{{0}}', '{{1}}', '{{a}}', '{{NULL}}')"
        )
    };
    let due = |since: &str| {
        format!(
            "INSERT INTO mailroom.queue (token, due_at, priority, secret) \
             VALUES (1, now() - interval '{since}', 1, 'a')"
        )
    };
    let logged = |outcome: &str, since: &str| {
        format!(
            "INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome) \
             VALUES (ARRAY[1], now() - interval '{since}', 0, '{outcome}')"
        )
    };
    let died = |since: &str| {
        format!(
            "INSERT INTO mailroom.dead_letters (token, died_at, expires_at, attempts, failures,
                priority, reason)
                VALUES (1, now() - interval '{since}', 0, 8, 8, 1, 'no')"
        )
    };
    let suppressed =
        died("0").replace("reason)", "reason, is_suppressed)").replace("'no')", "'no', true)");
    let waits = "INSERT INTO mailroom.queue (token, due_at, put_off_at, attempts, priority, secret,
        waits_since)
        VALUES (1, now() + interval '5 seconds', now(), 3, 1, 'a', now() - interval '70 seconds')";
    let in_doubt = |since: &str| {
        format!(
            "INSERT INTO mailroom.queue (token, due_at, attempts, doubts, priority, secret,
                waits_since)
                VALUES (1, now() + interval '1 minute', 1, 1, 1, 'a', now() - interval '{since}')"
        )
    };
    let maybe_delivered = |since: &str| {
        died(since).replace("reason)", "reason, doubts)").replace("'no')", "'no', 3)")
    };
    let tried = lease("1 second", "1 minute");
    let again = tried
        .replace("codes)", "codes, waits_since)")
        .replace("'{NULL}')", "'{NULL}', ARRAY[now() - interval '70 seconds'])");
    let often = again.replace("'{1}', '{0}'", "'{2}', '{0}'");
    assert_ne!(often, again);
    let doubtful = often
        .replace("waits_since)", "waits_since, doubts)")
        .replace("'70 seconds'])", "'11 minutes'], '{1}')");
    assert_ne!(doubtful, often);
    let warning = |alarm| Some((vec![alarm], 1));
    let critical = |alarm| Some((vec![alarm], 2));
    for (scene, alarm) in [
        (due("5 seconds"), None),
        (due("70 seconds"), warning("queue.oldest_due_ms")),
        (due("310 seconds"), critical("queue.oldest_due_ms")),
        (waits.to_owned(), warning("queue.oldest_due_ms")),
        (again, None),
        (often, warning("queue.oldest_due_ms")),
        (lease("10 minutes", "1 minute"), None),
        (lease("12 minutes", "1 minute"), warning("leases.oldest_ms")),
        (lease("2 minutes", "-1 second"), warning("leases.lapsed")),
        (in_doubt("8 minutes"), None),
        (in_doubt("11 minutes"), warning("in_doubt.oldest_ms")),
        (doubtful, warning("in_doubt.oldest_ms")),
        (
            maybe_delivered("50 minutes"),
            Some((vec!["in_doubt.dead_last_hour", "dead.last_hour"], 1)),
        ),
        (maybe_delivered("61 minutes"), None),
        (died("50 minutes"), warning("dead.last_hour")),
        (died("61 minutes"), None),
        (suppressed, None),
        (logged("expired", "61 minutes"), None),
        (logged("expired", "50 minutes"), critical("expired.last_hour")),
        (logged("sent", "1 minute"), None),
    ] {
        client
            .batch_execute(
                "DELETE FROM mailroom.queue; DELETE FROM mailroom.leases; \
                 DELETE FROM mailroom.dead_letters; DELETE FROM mailroom.delivery_log",
            )
            .await?;
        client.batch_execute(&scene).await?;
        let said = run(&database, &["status", "--json"])?;
        let status: Value = serde_json::from_str(&said.output)?;
        let (names, code) = alarm.unwrap_or_default();
        assert_eq!(status["alarms"], json!(names), "{scene}");
        assert_eq!(said.code, Some(code), "{scene}");
    }
    client.batch_execute("DELETE FROM mailroom.delivery_log").await?;
    client.batch_execute(&died("2 hours")).await?;
    assert_eq!(run(&database, &["status", "--max-dead", "1"])?.code, Some(0));
    let said = run(&database, &["status", "--max-dead", "0"])?;
    assert!(
        said.code == Some(1) && said.output.contains("alarm     dead_letters (warning)"),
        "{}",
        said.output
    );
    client.batch_execute("DELETE FROM mailroom.dead_letters").await?;
    // The bounds are those of the collector's settings.
    client
        .batch_execute(&format!(
            "DELETE FROM mailroom.delivery_log; {}; {}",
            due("70 seconds"),
            lease("6 minutes", "1 minute")
        ))
        .await?;
    let mut command = super::command(database.url(), &["status"])?;
    command.envs([("MAILROOM_BATCH_TIMEOUT", "1m"), ("MAILROOM_SENDER_TIMEOUT", "40s")]);
    assert_eq!(super::said(command)?.code, Some(0));
    let mut command = super::command(database.url(), &["status"])?;
    command.env("MAILROOM_SENDER_TIMEOUT", "soon");
    let said = super::said(command)?;
    assert_eq!(said.code, Some(3), "{}", said.errors);
    Ok(())
}

#[tokio::test]
async fn the_sent_of_an_hour_are_counted_without_reading_the_log_of_a_month() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client
        .batch_execute(
            "INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome)
                SELECT ARRAY[n], now() - n * interval '10 seconds', 1, 'sent'
                    FROM generate_series(250000, 1, -1) AS n;
            ANALYZE mailroom.delivery_log",
        )
        .await?;
    let query = concat!(
        "EXPLAIN (COSTS OFF)\n",
        include_str!("../../../../collector/src/commands/sent.sql")
    );
    let plan = client.query(query, &[]).await?;
    let plan: Vec<String> = plan.iter().map(|line| line.get(0)).collect();
    let plan = plan.join("\n");
    assert!(plan.contains("delivery_log_happened_at_idx"), "{plan}");
    Ok(())
}

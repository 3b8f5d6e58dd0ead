//! The sender in Python that the documents show, between a real database and a mail server.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::{self, Collector, wait_until};
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::machine::has_python;
use mailroom_tests::port;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::{WITHOUT_VERDICT, register, wait_for};
use mailroom_tests::stopwatch::Stopwatch;

/// How long the mail server is away; a variable makes it longer, to try an outage of minutes.
fn outage_length() -> Result<Duration> {
    let seconds = std::env::var("MAILROOM_TEST_OUTAGE_SECONDS").unwrap_or_else(|_| "8".to_owned());
    Ok(Duration::from_secs(seconds.parse().context("MAILROOM_TEST_OUTAGE_SECONDS is no number")?))
}

/// Half of the time connections are refused, half of it the server answers 421.
#[tokio::test]
async fn the_example_in_python_loses_nothing_while_its_mail_server_is_away() -> Result<()> {
    const PEOPLE: i32 = 120;
    if !has_python()? {
        return Ok(());
    }
    let length = outage_length()?;
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let address = format!("127.0.0.1:{}", port::free()?);
    let collector = Collector::start(&mut example(&database, &address)?)?;
    let began = Stopwatch::start();
    register(&client, 1..=PEOPLE).await?;
    let people = client.accounts(numbered("lost", 1..=20)).at("x.test").active().insert().await?;
    client.token().recovery().insert_for_each(&people).await?;
    tokio::time::sleep(length / 2).await;
    let server = MailServer::start_at(&address)?;
    server.is_closed.store(true, Ordering::Relaxed);
    tokio::time::sleep(length / 2).await;
    // However long that takes on a busy machine.
    collector.wait_for_log("the sender is unavailable: ", 1)?;
    let query = "SELECT
            (SELECT count(*) FROM mailroom.queue)
                + (SELECT coalesce(sum(cardinality(tokens)), 0) FROM mailroom.leases)::bigint,
            (SELECT count(*) FROM mailroom.delivery_attempts WHERE outcome::text <> 'unanswered')";
    let row = client.query_one(query, &[]).await?;
    let found: (i64, i64) = (row.get(0), row.get(1));
    ensure!(
        found == (i64::from(PEOPLE) + 20, 0),
        "{found:?}: tokens were lost, given up or refused"
    );
    println!(
        "after {:?} without a mail server: {} tokens wait, none failed",
        began.elapsed(),
        found.0
    );
    let back = Stopwatch::start();
    server.is_closed.store(false, Ordering::Relaxed);
    wait_until(|| i64::try_from(server.mails().len()) == Ok(found.0))?;
    println!("all {} mails went out within {:?}", found.0, back.elapsed());
    wait_for(&client, WITHOUT_VERDICT, 0_i64).await?;
    let row = client
        .query_one(
            "SELECT count(*) FROM mailroom.delivery_attempts WHERE outcome::text = 'sent'",
            &[],
        )
        .await?;
    ensure!(row.get::<_, i64>(0) == found.0, "{} were sent", row.get::<_, i64>(0));
    let order = server.order();
    ensure!(i64::try_from(order.len()) == Ok(found.0), "{} mails were sent", order.len());
    let last =
        order.iter().rposition(|recipient| recipient.starts_with("lost")).context("no recovery")?;
    ensure!(last < 60, "the last recovery was mail {last}");
    println!("the last of 20 recoveries was mail {}", last + 1);
    let log = collector.stop()?;
    ensure!(log.contains("sending again"), "{log}");
    Ok(())
}

fn example(database: &Database, server: &str) -> Result<Command> {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("senders/example.py");
    let mut command = collector::command(database.url())?;
    command.args([
        "--queue-kind",
        "deliveries",
        "--batch-timeout",
        "0",
        "--poll-interval",
        "200ms",
    ]);
    command.args(["--sender", &format!("python3 '{}'", example.display())]);
    command
        .env("SMTP_SERVER", server)
        .env("MAIL_FROM", "us@x.test")
        .env("LINK_BASE", "https://x.test");
    Ok(command)
}

#[tokio::test]
async fn the_example_in_python_sends_mails_and_answers_for_each() -> Result<()> {
    if !has_python()? {
        return Ok(());
    }
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.accounts(["ada", "gone", "busy"]).at("x.test").insert().await?;
    client
        .accounts(["two", "line", "none", "wide"])
        .emails([
            "two@x.test, victim@x.test",
            "line@x.test\r\nBcc: victim@x.test",
            "",
            "a@b\u{fc}cher.test",
        ])
        .insert()
        .await?;
    let bob = client.account("bob").at("x.test").active().insert().await?;
    client.token().recovery().of(bob).insert().await?;
    let server = MailServer::start()?;
    let collector = Collector::start(&mut example(&database, &server.address)?)?;

    wait_until(|| server.mails().len() == 3)?;
    wait_for(&client, WITHOUT_VERDICT, 0_i64).await?;
    let log = collector.stop()?;
    let mails = server.mails();
    for recipient in ["ada@x.test", "bob@x.test", "busy@x.test"] {
        let mail = mails
            .get(recipient)
            .with_context(|| format!("no mail for {recipient}; the log:\n{log}"))?;
        let query = "SELECT tokens.id, code FROM tokens JOIN accounts ON accounts.id = account
            WHERE email = $1
            ORDER BY tokens.id DESC LIMIT 1";
        let row = client.query_one(query, &[&recipient]).await?;
        ensure!(
            mail.contains(&format!("Message-ID: <{}@mailroom.invalid>", row.get::<_, i64>(0))),
            "{mail}"
        );
        let path = if recipient == "bob@x.test" { "/recover" } else { "/activate" };
        ensure!(mail.contains(&format!("https://x.test{path}?token=")), "{mail}");
        let has_code = mail.contains(&format!("Your code is {}.", row.get::<_, &str>(1)));
        ensure!(has_code == (path == "/recover"), "{mail}");
    }
    ensure!(mails.len() == 3, "mails went to {:?}", mails.keys());
    let query = "SELECT login, state::text, attempts::bigint, reason FROM mailroom.deliveries
        JOIN tokens ON tokens.id = token
        JOIN accounts ON accounts.id = account WHERE login <> 'bob' ORDER BY login";
    let found: Vec<(String, String, i64)> = client
        .query(query, &[])
        .await?
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2)))
        .collect();
    let expected = [
        ("ada", "sent", 1),
        ("busy", "sent", 2),
        ("gone", "dead", 1),
        ("line", "cancelled", 0),
        ("none", "dead", 1),
        ("two", "cancelled", 0),
        ("wide", "dead", 1),
    ];
    let expected =
        expected.map(|(login, state, attempts)| (login.to_owned(), state.to_owned(), attempts));
    ensure!(found == expected, "{found:?}; the log:\n{log}");
    Ok(())
}

/// A minimal mail server (RFC 5321) that records what it gets. It refuses the recipient `gone` for
/// ever and `busy` at first.
struct MailServer {
    address: String,
    mails: Arc<Mutex<BTreeMap<String, String>>>,
    /// The recipients in the order of their mails.
    order: Arc<Mutex<Vec<String>>>,
    /// Whether it answers 421 to every connection.
    is_closed: Arc<AtomicBool>,
}

impl MailServer {
    fn start() -> Result<Self> {
        Self::start_at("127.0.0.1:0")
    }

    fn start_at(address: &str) -> Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?.to_string();
        let server = Self {
            address,
            mails: Arc::default(),
            order: Arc::default(),
            is_closed: Arc::default(),
        };
        let (mails, order) = (Arc::clone(&server.mails), Arc::clone(&server.order));
        let (is_closed, busy) = (Arc::clone(&server.is_closed), Arc::new(Mutex::new(0)));
        thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                if is_closed.load(Ordering::Relaxed) {
                    connection.write_all(b"421 4.3.2 closed for maintenance\r\n").ok();
                    continue;
                }
                let (mails, order, busy) =
                    (Arc::clone(&mails), Arc::clone(&order), Arc::clone(&busy));
                thread::spawn(move || serve(connection, &mails, &order, &busy).ok());
            }
        });
        Ok(server)
    }

    fn order(&self) -> Vec<String> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn mails(&self) -> BTreeMap<String, String> {
        self.mails.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(
    mut connection: TcpStream,
    mails: &Mutex<BTreeMap<String, String>>,
    order: &Mutex<Vec<String>>,
    busy: &Mutex<u32>,
) -> Result<()> {
    let mut lines = BufReader::new(connection.try_clone()?).lines();
    connection.write_all(b"220 x.test\r\n")?;
    let mut recipients = Vec::new();
    while let Some(line) = lines.next().transpose()? {
        let answer =
            match line.split([':', ' ']).next().unwrap_or_default().to_ascii_uppercase().as_str() {
                "RCPT" => {
                    let recipient = line.split(['<', '>']).nth(1).unwrap_or_default().to_owned();
                    let mut refusals = busy.lock().unwrap_or_else(PoisonError::into_inner);
                    match recipient.as_str() {
                        "gone@x.test" => "550 5.1.1 <gone@x.test> is nobody",
                        "busy@x.test" if *refusals == 0 => {
                            *refusals += 1;
                            "451 4.7.1 come again"
                        }
                        _ => {
                            recipients.push(recipient);
                            "250 ok"
                        }
                    }
                }
                "DATA" => {
                    connection.write_all(b"354 go on\r\n")?;
                    let mut mail = String::new();
                    for line in lines.by_ref() {
                        let line = line?;
                        if line == "." {
                            break;
                        }
                        mail.push_str(&line);
                        mail.push('\n');
                    }
                    let mut mails = mails.lock().unwrap_or_else(PoisonError::into_inner);
                    let mut order = order.lock().unwrap_or_else(PoisonError::into_inner);
                    for recipient in recipients.drain(..) {
                        order.push(recipient.clone());
                        mails.insert(recipient, mail.clone());
                    }
                    "250 ok"
                }
                "QUIT" => {
                    connection.write_all(b"221 bye\r\n")?;
                    return Ok(());
                }
                _ => "250 ok",
            };
        connection.write_all(format!("{answer}\r\n").as_bytes())?;
    }
    Ok(())
}

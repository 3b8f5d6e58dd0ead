//! The sender in Python that the documents show, between a real database and a mail server.
//!
//! Without libtest, which cannot say that a test was skipped: where nobody has installed Python, this is.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::{self, Collector, wait_until};
use mailroom_tests::postgres::Database;
use tokio_postgres::Client;

const TITLE: &str = "the_example_in_python_sends_mails_and_answers_for_each";

fn main() -> Result<ExitCode> {
    match Command::new("python3").arg("--version").output() {
        // Folders of `PATH` that this user may not enter are of no use to them, either.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
            println!("skipped: {TITLE}: there is no python3; install Python 3.9 or later");
            println!("test result: ok. 0 passed; 0 failed; 1 ignored");
            return Ok(ExitCode::SUCCESS);
        }
        other => other.context("python3 cannot be started")?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match runtime.block_on(mails_arrive()) {
        Ok(()) => {
            println!("test {TITLE} ... ok");
            println!("test result: ok. 1 passed; 0 failed; 0 ignored");
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            println!("test {TITLE} ... FAILED\n{error:?}");
            println!("test result: FAILED. 0 passed; 1 failed; 0 ignored");
            Ok(ExitCode::FAILURE)
        }
    }
}

async fn mails_arrive() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client
        .batch_execute(
            "INSERT INTO accounts (email, login) VALUES
                ('ada@x.test', 'ada'), ('gone@x.test', 'gone'), ('busy@x.test', 'busy'),
                ('two@x.test, victim@x.test', 'two'), (E'line@x.test\\r\\nBcc: victim@x.test', 'line'), ('', 'none');
             INSERT INTO accounts (email, login, status) VALUES ('bob@x.test', 'bob', 'active');
             INSERT INTO tokens (account, action) SELECT id, 'password_recovery' FROM accounts WHERE login = 'bob'",
        )
        .await?;
    let server = MailServer::start()?;
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("senders/example.py");
    let mut command = collector::command(database.url())?;
    command.args(["--queue-kind", "deliveries", "--batch-timeout", "0", "--poll-interval", "200ms"]);
    command.args(["--sender", &format!("python3 '{}'", example.display())]);
    command.env("SMTP_SERVER", &server.address).env("MAIL_FROM", "us@x.test");
    let collector = Collector::start(command.env("LINK_BASE", "https://x.test"))?;

    wait_until(|| server.mails().len() == 3)?;
    wait_until_all_are_settled(&client).await?;
    let log = collector.stop()?;
    let mails = server.mails();
    for recipient in ["ada@x.test", "bob@x.test", "busy@x.test"] {
        let mail =
            mails.get(recipient).with_context(|| format!("no mail for {recipient}; the log:\n{log}"))?;
        let query =
            "SELECT tokens.id, code FROM tokens JOIN accounts ON accounts.id = account WHERE email = $1
            ORDER BY tokens.id DESC LIMIT 1";
        let row = client.query_one(query, &[&recipient]).await?;
        ensure!(mail.contains(&format!("Message-ID: <{}@mailroom.invalid>", row.get::<_, i64>(0))), "{mail}");
        let path = if recipient == "bob@x.test" { "/recover" } else { "/activate" };
        ensure!(mail.contains(&format!("https://x.test{path}?token=")), "{mail}");
        let has_code = mail.contains(&format!("Your code is {}.", row.get::<_, &str>(1)));
        ensure!(has_code == (path == "/recover"), "{mail}");
    }
    ensure!(mails.len() == 3, "mails went to {:?}", mails.keys());
    let query =
        "SELECT login, state::text, attempts::bigint, reason FROM deliveries JOIN tokens ON tokens.id = token
        JOIN accounts ON accounts.id = account WHERE login <> 'bob' ORDER BY login";
    let found: Vec<(String, String, i64)> =
        client.query(query, &[]).await?.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    let expected = [
        ("ada", "sent", 1),
        ("busy", "sent", 2),
        ("gone", "dead", 1),
        ("line", "dead", 1),
        ("none", "dead", 1),
        ("two", "dead", 1),
    ];
    let expected = expected.map(|(login, state, attempts)| (login.to_owned(), state.to_owned(), attempts));
    ensure!(found == expected, "{found:?}; the log:\n{log}");
    Ok(())
}

async fn wait_until_all_are_settled(client: &Client) -> Result<()> {
    for _ in 0..3_000 {
        let query = "SELECT count(*) FROM deliveries JOIN tokens ON tokens.id = token JOIN accounts ON accounts.id = account
            WHERE state::text NOT IN ('sent', 'dead') AND NOT (login = 'bob' AND state::text = 'parked')";
        if client.query_one(query, &[]).await?.get::<_, i64>(0) == 0 {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    anyhow::bail!("tokens are left")
}

/// As much of a mail server as tells what a client sends it (RFC 5321). It knows nobody called `gone`, and has no time for
/// `busy` at first.
struct MailServer {
    address: String,
    mails: Arc<Mutex<BTreeMap<String, String>>>,
}

impl MailServer {
    fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let mails = Arc::new(Mutex::default());
        let (copy, busy) = (Arc::clone(&mails), Arc::new(Mutex::new(0)));
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (mails, busy) = (Arc::clone(&copy), Arc::clone(&busy));
                thread::spawn(move || serve(connection, &mails, &busy).ok());
            }
        });
        Ok(Self { address, mails })
    }

    fn mails(&self) -> BTreeMap<String, String> {
        self.mails.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(
    mut connection: TcpStream,
    mails: &Mutex<BTreeMap<String, String>>,
    busy: &Mutex<u32>,
) -> Result<()> {
    let mut lines = BufReader::new(connection.try_clone()?).lines();
    connection.write_all(b"220 x.test\r\n")?;
    let mut recipients = Vec::new();
    while let Some(line) = lines.next().transpose()? {
        let answer = match line.split([':', ' ']).next().unwrap_or_default().to_ascii_uppercase().as_str() {
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
                for recipient in recipients.drain(..) {
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

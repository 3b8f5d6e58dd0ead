//! Databases in which a text may have no UTF-8 form: such a row is passed, the others go out, the
//! queue goes on.

use std::fs;
use std::process::Command;

use anyhow::Result;
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use mailroom_tests::rows::cursor;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

/// A database in an encoding other than the server's.
pub(crate) struct Encoded {
    server: Database,
    admin: Client,
    pub(crate) client: Client,
    name: String,
    pub(crate) url: String,
}

impl Encoded {
    /// With the base schema.
    async fn create(encoding: &str) -> Result<Self> {
        let database = Self::empty(encoding).await?;
        let folder = mailroom_tests::tools::workspace().join("migrations");
        let schema = fs::read_to_string(folder.join("0_create_base_schema.up.sql"))?;
        database.client.batch_execute(&schema).await?;
        Ok(database)
    }

    pub(crate) async fn empty(encoding: &str) -> Result<Self> {
        let server = Database::create()?;
        let admin = server.connect().await?;
        let name = format!("{}_encoded", server.name());
        let create =
            format!("CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0");
        admin.batch_execute(&create).await?;
        let url = server.url().replacen(server.name(), &name, 1);
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
        tokio::spawn(connection);
        Ok(Self { server, admin, client, name, url })
    }

    fn collector(&self) -> Result<Command> {
        let mut command = collector::on_base_schema(&self.url)?;
        command.args(["--batch-timeout", "0", "--poll-interval", "200ms"]);
        Ok(command)
    }

    pub(crate) async fn drop(self) -> Result<()> {
        self.admin.batch_execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name)).await?;
        drop(self.server);
        Ok(())
    }
}

#[tokio::test]
async fn bytes_that_are_not_utf8_are_passed_in_a_database_without_an_encoding() -> Result<()> {
    let database = Encoded::create("SQL_ASCII").await?;
    let insert = "INSERT INTO accounts (email, login) VALUES ('a@b.test', E'\\xff\\xfe'), \
                  ('ü@b.test', 'good')";
    database.client.batch_execute(insert).await?;
    let mut collector = Collector::start(&mut database.collector()?)?;
    let batch = collector.lines()?.next_batch()?;
    assert_eq!((batch.len(), batch[0].email.as_str()), (1, "ü@b.test"));
    collector.wait_for_log("token 1: its login contains bytes that are not UTF-8", 1)?;
    collector.stop()?;
    assert_eq!(cursor(&database.client).await?, 2);
    database.drop().await
}

#[tokio::test]
async fn a_key_stands_for_one_mail_also_where_a_text_has_no_utf8_form() -> Result<()> {
    for encoding in ["SQL_ASCII", "WIN1252"] {
        let database = Encoded::empty(encoding).await?;
        let client = &database.client;
        let call = |id: &str| {
            format!(
                "SELECT mailroom.enqueue('notice', 'ada@example.test', \
                 subject_id => convert_from('{id}', '{encoding}'), idempotency_key => 'key')"
            )
        };
        let mut migrate = program::mailroom()?;
        migrate.args(["migrate", "up", "--without-accounts"]);
        assert!(migrate.env("MAILROOM_DATABASE_URL", &database.url).output()?.status.success());
        let first: i64 = client.query_one(&call("\\x8141"), &[]).await?.get(0);
        let second: i64 = client.query_one(&call("\\x8141"), &[]).await?.get(0);
        assert_eq!(second, first, "{encoding}");
        let error = client.batch_execute(&call("\\x8142")).await.expect_err("another id");
        assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION), "{encoding}");
        database.drop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn characters_without_a_utf8_form_are_passed_in_a_database_of_single_bytes() -> Result<()> {
    // The byte 81 stands for nothing in the first, for a control character in the others.
    for (encoding, contains) in [
        ("WIN1252", "bytes that are not UTF-8"),
        ("LATIN1", "a control character"),
        ("LATIN9", "a control character"),
    ] {
        let database = Encoded::create(encoding).await?;
        let client = &database.client;
        client
            .batch_execute(&format!(
                "INSERT INTO accounts (email, login)
                    SELECT 'ü' || n || '@b.test', 'user' || n FROM generate_series(1, 200) AS n;
                 UPDATE accounts SET login = convert_from('\\x81', '{encoding}') || id
                     WHERE id IN (1, 90, 91, 95, 200);
                 UPDATE accounts SET email = convert_from('\\x81', '{encoding}') WHERE id = 150;
                 UPDATE tokens SET code = convert_from('\\x81', '{encoding}') WHERE id = 151;
                 UPDATE accounts SET status = 'suspended' WHERE id IN (94, 95, 96);"
            ))
            .await?;
        let mut collector = Collector::start(&mut database.collector()?)?;
        let lines = collector.lines()?;
        let left_out = [1, 90, 91, 94, 95, 96, 150, 151, 200];
        let numbers = (1..=200).filter(|number| !left_out.contains(number));
        let expected: Vec<_> =
            numbers.map(|n| (format!("ü{n}@b.test"), format!("user{n}"))).collect();
        let sent = lines.next_items(expected.len())?.into_iter();
        assert_eq!(sent.map(|item| (item.email, item.login)).collect::<Vec<_>>(), expected);
        // Looked at again, they are read by their ids.
        client
            .batch_execute("UPDATE accounts SET status = 'active' WHERE status = 'suspended'")
            .await?;
        let sent: Vec<_> = lines.next_items(2)?.into_iter().map(|item| item.login).collect();
        assert_eq!(sent, ["user94", "user96"]);
        for (id, column) in [
            (1, "login"),
            (90, "login"),
            (91, "login"),
            (95, "login"),
            (150, "email"),
            (151, "code"),
            (200, "login"),
        ] {
            collector.wait_for_log(&format!("token {id}: its {column} contains {contains}"), 1)?;
        }
        let log = collector.stop()?;
        assert!(!log.contains("not collecting"), "{log}");
        assert_eq!(cursor(client).await?, 200);
        database.drop().await?;
    }
    Ok(())
}

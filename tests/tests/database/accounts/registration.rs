//! Registration makes tokens, and deletion takes them away.

use std::fs;

use anyhow::{Context, Result};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_tests::{program, tools};
use tokio_postgres::error::SqlState;

use super::{count, databases, register};

#[tokio::test]
async fn registration_makes_an_activation_token_in_the_same_transaction() -> Result<()> {
    for database in databases()? {
        let mut client = database.connect().await?;
        let observer = database.connect().await?;

        let transaction = client.transaction().await?;
        transaction.account("a").at("b.test").insert().await?;
        assert_eq!(transaction.query("SELECT FROM tokens", &[]).await?.len(), 1);
        assert_eq!(count(&observer, "tokens").await?, 0, "seen before the commit");
        transaction.rollback().await?;
        assert_eq!(count(&client, "tokens").await?, 0, "left by a rollback");

        let account = register(&client, "b").await?;
        let row = observer
            .query_one(
                "SELECT action::text, length(secret), code, expires_at - created_at = 900,
                    consumed_at IS NULL,
                    abs(created_at - extract(epoch FROM now())) < 60, account FROM tokens",
                &[],
            )
            .await?;
        assert_eq!(row.get::<_, &str>(0), "activation");
        assert_eq!(row.get::<_, i32>(1), 32);
        assert_eq!(row.get::<_, &str>(2).len(), 5);
        assert_eq!([3, 4, 5].map(|column: usize| row.get::<_, bool>(column)), [true; 3]);
        assert_eq!(row.get::<_, i64>(6), account);
    }
    Ok(())
}

#[tokio::test]
async fn every_account_of_a_statement_gets_a_token_of_its_own() -> Result<()> {
    for database in databases()? {
        let client = database.connect().await?;
        let insert = "INSERT INTO accounts (email, login) SELECT n || '@b.test', n \
                      FROM generate_series(1, 500) n";
        client.execute(insert, &[]).await?;
        let query = "SELECT count(*), count(DISTINCT account), count(DISTINCT secret) FROM tokens";
        let row = client.query_one(query, &[]).await?;
        assert_eq!([0, 1, 2].map(|column: usize| row.get::<_, i64>(column)), [500; 3]);
    }
    Ok(())
}

/// As `pg_restore --disable-triggers` does, and what loads the data of tests.
#[tokio::test]
async fn a_registration_makes_one_token_also_where_a_tool_has_enabled_all_triggers() -> Result<()> {
    for up in [&["migrate", "up"][..], &["migrate", "up", "--drop-secrets"]] {
        let database = Database::create()?;
        let output =
            program::mailroom()?.args(up).env("MAILROOM_DATABASE_URL", database.url()).output()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let client = database.connect().await?;
        for table in ["accounts", "tokens"] {
            client
                .batch_execute(&format!(
                    "ALTER TABLE {table} DISABLE TRIGGER ALL; \
                     ALTER TABLE {table} ENABLE TRIGGER ALL"
                ))
                .await?;
        }
        register(&client, "a").await?;
        assert_eq!(count(&client, "mailroom.queue").await?, 1, "{up:?}");
        assert_eq!(count(&client, "mailroom.issued_tokens").await?, 1, "{up:?}");
    }
    Ok(())
}

#[tokio::test]
async fn only_provisioned_accounts_get_a_token() -> Result<()> {
    for database in databases()? {
        let client = database.connect().await?;
        let insert = "INSERT INTO accounts (email, login, status)
            VALUES ('a', 'a', 'active'), ('b', 'b', 'suspended'), ('c', 'c', 'provisioned')
                RETURNING id";
        let accounts = client.query(insert, &[]).await?;
        let tokens = client.query("SELECT account FROM tokens", &[]).await?;
        assert_eq!(tokens.len(), 1);
        assert_eq!(tokens[0].get::<_, i64>(0), accounts[2].get::<_, i64>(0));
    }
    Ok(())
}

#[tokio::test]
async fn a_failing_token_insert_rolls_the_account_back() -> Result<()> {
    for database in databases()? {
        let client = database.connect().await?;
        client
            .batch_execute(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
                    AS $$ BEGIN RAISE EXCEPTION 'no tokens today'; END; $$;
                CREATE TRIGGER refuse BEFORE INSERT ON tokens
                    FOR EACH ROW EXECUTE FUNCTION refuse()",
            )
            .await?;
        let insert = "INSERT INTO accounts (email, login) VALUES ('a', 'a'), ('b', 'b')";
        let error = client.execute(insert, &[]).await.expect_err("the token was refused");
        assert_eq!(error.as_db_error().context("by the server")?.message(), "no tokens today");
        assert_eq!(count(&client, "accounts").await?, 0);
        assert_eq!(count(&client, "tokens").await?, 0);

        client.batch_execute("DROP TRIGGER refuse ON tokens").await?;
        register(&client, "a").await?;
        assert_eq!(count(&client, "tokens").await?, 1);
    }
    Ok(())
}

#[tokio::test]
async fn a_second_account_with_the_same_email_or_login_makes_no_token() -> Result<()> {
    for database in databases()? {
        let client = database.connect().await?;
        register(&client, "a").await?;
        for values in ["'a@example.test', 'b'", "'b', 'a'"] {
            let insert = format!("INSERT INTO accounts (email, login) VALUES ({values})");
            let error = client.execute(&insert, &[]).await.expect_err("it is there already");
            assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION));
        }
        assert_eq!(count(&client, "tokens").await?, 1);
    }
    Ok(())
}

#[tokio::test]
async fn deleting_an_account_deletes_its_tokens_alone() -> Result<()> {
    for database in databases()? {
        let client = database.connect().await?;
        let (account, other) = (register(&client, "a").await?, register(&client, "b").await?);
        client.execute("DELETE FROM accounts WHERE id = $1", &[&account]).await?;
        let left = client.query("SELECT account FROM tokens", &[]).await?;
        assert_eq!(left.iter().map(|row| row.get(0)).collect::<Vec<i64>>(), [other]);
    }
    Ok(())
}

#[tokio::test]
async fn a_token_may_precede_its_account_but_not_lack_it() -> Result<()> {
    for database in databases()? {
        let mut client = database.connect().await?;
        let insert = "INSERT INTO tokens (account, action) VALUES (4711, 'password_recovery')";
        let transaction = client.transaction().await?;
        transaction.execute(insert, &[]).await?;
        transaction
            .execute(
                "INSERT INTO accounts (id, email, login, status) VALUES (4711, 'a', 'a', 'active')",
                &[],
            )
            .await?;
        transaction.commit().await?;
        assert_eq!(count(&client, "tokens").await?, 1);

        let transaction = client.transaction().await?;
        transaction.execute(&insert.replace("4711", "4712"), &[]).await?;
        let error = transaction.commit().await.expect_err("there is no such account");
        assert_eq!(error.code(), Some(&SqlState::FOREIGN_KEY_VIOLATION));
        assert_eq!(count(&client, "tokens").await?, 1);
    }
    Ok(())
}

#[tokio::test]
async fn tokens_have_the_language_of_their_account_where_the_view_shows_one_as_the_document_says()
-> Result<()> {
    let document = fs::read_to_string(tools::workspace().join("docs/guides/accounts.md"))?;
    let mut passages = document.split("\n\n");
    let view = passages.find(|passage| {
        passage.starts_with("    CREATE OR REPLACE VIEW mailroom.adopted_accounts ")
    });
    let view = view.context("the document has the view")?;
    for up in [&["migrate", "up"][..], &["migrate", "up", "--drop-secrets"]] {
        let database = Database::create()?;
        let output =
            program::mailroom()?.args(up).env("MAILROOM_DATABASE_URL", database.url()).output()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let client = database.connect().await?;
        client.account("x0").at("x.test").insert().await?;
        client
            .batch_execute(&format!("ALTER TABLE accounts ADD COLUMN locale varchar; {view}"))
            .await?;
        let insert =
            "INSERT INTO accounts (email, login, locale) SELECT 'x' || n || '@x.test', 'x' || n,
            locale
            FROM unnest($1::text[]) WITH ORDINALITY AS given (locale, n)";
        let long = "de-".repeat(100_000);
        let locales = [
            Some("de-CH"),
            None,
            Some(""),
            Some("de_DE.UTF-8"),
            Some("pt-BR\r\nBcc: x"),
            Some(&long),
        ];
        client.execute(insert, &[&&locales[..]]).await?;
        client.batch_execute("UPDATE accounts SET status = 'active' WHERE login = 'x1'").await?;
        let ask = "INSERT INTO tokens (account, action) SELECT id, 'password_recovery' \
                   FROM accounts WHERE login = 'x1'";
        client.batch_execute(ask).await?;
        client.batch_execute("SELECT mailroom.request('x1', 'sign_in')").await?;

        let query = "SELECT recipient_name, language FROM mailroom.issued_tokens ORDER BY id";
        let rows = client.query(query, &[]).await?;
        let languages: Vec<(&str, Option<&str>)> =
            rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let without = |name| (name, None);
        let expected = [
            without("x0"),
            ("x1", Some("de-CH")),
            without("x2"),
            without("x3"),
            // What can be understood of a tag counts, and no more.
            ("x4", Some("de-DE")),
            ("x5", Some("pt-BR")),
            ("x6", Some("de-de-de-de")),
            ("x1", Some("de-CH")),
            ("x1", Some("de-CH")),
        ];
        assert_eq!(languages, expected, "{up:?}");
    }
    Ok(())
}

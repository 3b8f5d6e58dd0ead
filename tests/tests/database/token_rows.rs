//! Rows of `tokens` stay as their mail was signed, and are found by their consumed ids.

use anyhow::{Context, Result};
use mailroom_tests::application::Application;
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::hex::hexadecimal;
use mailroom_tests::postgres::Database;
use mailroom_verifier_core::{ConsumedId, Secret};
use tokio_postgres::Client;
use tokio_postgres::error::{DbError, SqlState};

async fn rows(client: &Client) -> Result<Vec<String>> {
    let query = "SELECT to_jsonb(tokens)::text FROM tokens ORDER BY 1";
    Ok(client.query(query, &[]).await?.iter().map(|row| row.get(0)).collect())
}

async fn refusal(client: &Client, statement: &str) -> Result<DbError> {
    let error = client.batch_execute(statement).await.expect_err(statement);
    Ok(error.as_db_error().context("the server did not answer")?.clone())
}

#[tokio::test]
async fn nothing_of_a_token_can_be_changed_but_its_use() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let (account, _other) = (application.register("a").await?, application.register("b").await?);
    let token = application.newest_token(account, "activation").await?;
    let before = rows(&application.client).await?;
    for (column, value) in [
        ("id", "id + 1000"),
        ("action", "'password_recovery'"),
        ("secret", "gen_random_bytes(32)"),
        ("secret", "secret || '\\x00'"),
        ("code", "lpad(((code::int + 1) % 100000)::text, 5, '0')"),
        ("code", "NULL"),
        ("account", "3 - account"),
        ("expires_at", "expires_at + 1"),
        ("expires_at", "expires_at - 1"),
        ("created_at", "created_at - 60"),
    ] {
        // A use besides makes it no better.
        for use_too in ["", ", consumed_at = 1"] {
            let update =
                format!("UPDATE tokens SET {column} = {value}{use_too} WHERE id = {}", token.id);
            let refusal = refusal(&application.client, &update).await?;
            assert_eq!(refusal.code(), &SqlState::INTEGRITY_CONSTRAINT_VIOLATION, "{update}");
            assert_eq!(
                (refusal.table(), refusal.column()),
                (Some("tokens"), Some(column)),
                "{update}"
            );
            assert_eq!(
                refusal.message(),
                format!("the {column} of token {} cannot be changed", token.id)
            );
            assert_eq!(rows(&application.client).await?, before, "{update}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_refusal_quotes_neither_secret_nor_code() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register("a").await?;
    let token = application.newest_token(account, "activation").await?;
    let error =
        refusal(&application.client, "UPDATE tokens SET secret = '\\xabcdef', code = '98765'")
            .await?;
    let said = format!("{error:?}");
    let secret = hexadecimal(&token.secret);
    for part in [&secret, token.code.as_deref().context("it has a code")?, "abcdef", "98765"] {
        assert!(!said.contains(part), "{said}");
    }
    Ok(())
}

#[tokio::test]
async fn a_token_is_used_once_and_for_good() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    application.register("a").await?;
    application.client.batch_execute("UPDATE tokens SET consumed_at = 1700000000").await?;
    let before = rows(&application.client).await?;
    for value in ["NULL", "consumed_at + 1", "0"] {
        let refusal =
            refusal(&application.client, &format!("UPDATE tokens SET consumed_at = {value}"))
                .await?;
        assert_eq!(refusal.column(), Some("consumed_at"));
        assert_eq!(rows(&application.client).await?, before);
    }
    Ok(())
}

/// Applications of the base schema write the column; what `redeem()` ends, that ends, too.
#[tokio::test]
async fn a_recovery_that_the_application_writes_ends_the_others_and_changes_of_address()
-> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let client = &application.client;
    let account = application.register("a").await?;
    client.batch_execute("UPDATE accounts SET status = 'active'").await?;
    client.token().recovery().insert_for_each(&[account; 2]).await?;
    client.mail("change_email").to("eve@x.test").subject(account).enqueue().await?;
    let states = "SELECT format('%s %s %s', actions.name, consumed_at IS NOT NULL,
            cancelled_at IS NOT NULL)
        FROM mailroom.issued_tokens JOIN mailroom.actions ON number = action
        WHERE actions.name <> 'activate' ORDER BY id";
    let write = "UPDATE tokens SET consumed_at = extract(epoch FROM now())
        WHERE id = (SELECT max(id) FROM tokens)";
    client.batch_execute(write).await?;
    let found: Vec<String> =
        client.query(states, &[]).await?.iter().map(|row| row.get(0)).collect();
    assert_eq!(found, ["recover t f", "recover t f", "change_email f t"]);
    let used = "SELECT count(*) FROM tokens WHERE consumed_at IS NOT NULL
        AND action = 'password_recovery'";
    assert_eq!(client.query_one(used, &[]).await?.get::<_, i64>(0), 2);
    Ok(())
}

#[tokio::test]
async fn writing_what_is_there_already_is_no_change() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    application.register("a").await?;
    application.client.batch_execute("UPDATE tokens SET consumed_at = 1").await?;
    let before = rows(&application.client).await?;
    let update =
        "UPDATE tokens SET id = id, action = action, secret = secret, code = code, account =
        account,
        expires_at = expires_at, created_at = created_at, consumed_at = consumed_at";
    assert_eq!(application.client.execute(update, &[]).await?, 1);
    assert_eq!(rows(&application.client).await?, before);
    Ok(())
}

#[tokio::test]
async fn one_refused_row_refuses_the_whole_statement() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    for login in ["a", "b", "c"] {
        application.register(login).await?;
    }
    let before = rows(&application.client).await?;
    let mixed =
        "UPDATE tokens SET consumed_at = 1, expires_at = CASE id WHEN 2 THEN 0 ELSE expires_at END";
    assert_eq!(refusal(&application.client, mixed).await?.column(), Some("expires_at"));
    let upsert = "INSERT INTO tokens (id, account, action) VALUES (1, 1, 'activation')
        ON CONFLICT (id) DO UPDATE SET secret = excluded.secret";
    assert_eq!(refusal(&application.client, upsert).await?.column(), Some("secret"));
    assert_eq!(rows(&application.client).await?, before);
    Ok(())
}

#[tokio::test]
async fn a_trigger_of_somebody_else_cannot_change_a_row_on_the_way() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    application.register("a").await?;
    application
        .client
        .batch_execute(
            "CREATE FUNCTION prolong() RETURNS trigger LANGUAGE plpgsql
                AS $$ BEGIN NEW.expires_at := NEW.expires_at + 900; RETURN NEW; END; $$;
            CREATE TRIGGER zzz BEFORE UPDATE ON tokens FOR EACH ROW EXECUTE FUNCTION prolong()",
        )
        .await?;
    let refusal = refusal(&application.client, "UPDATE tokens SET consumed_at = 1").await?;
    assert_eq!(refusal.column(), Some("expires_at"));
    Ok(())
}

#[tokio::test]
async fn tokens_are_still_deleted_with_their_tries() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register_and_activate("a").await?;
    let token = application.insert_token(account, "password_recovery").await?;
    application.redeem(&token.secret, "password_recovery", Some("wrong")).await?;
    assert_eq!(application.attempts(token.id).await?, 1);
    application.client.execute("DELETE FROM tokens WHERE id = $1", &[&token.id]).await?;
    assert_eq!(application.attempts(token.id).await?, 0);
    Ok(())
}

#[tokio::test]
async fn consumed_ids_are_those_of_the_verifiers() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    for login in 0..50 {
        application.register(&login.to_string()).await?;
    }
    let rows = application
        .client
        .query("SELECT secret, mailroom.consumed_id(secret) FROM tokens", &[])
        .await?;
    for row in &rows {
        let secret: [u8; 32] = row.get::<_, &[u8]>(0).try_into()?;
        assert_eq!(row.get::<_, &[u8]>(1), ConsumedId::of(&Secret::from(secret)).as_bytes());
    }
    assert_eq!(rows.len(), 50);
    let of_nothing = application.client.query_one("SELECT mailroom.consumed_id(NULL)", &[]).await?;
    assert_eq!(of_nothing.get::<_, Option<Vec<u8>>>(0), None);
    Ok(())
}

#[tokio::test]
async fn a_token_is_found_by_its_consumed_id_through_the_index() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    application.accounts(numbered("", 1..=2_000)).insert().await?;
    application.client.batch_execute("ANALYZE mailroom.issued_tokens").await?;
    let id = "SELECT mailroom.consumed_id(secret) FROM tokens WHERE id = 1234";
    let id: Vec<u8> = application.client.query_one(id, &[]).await?.get(0);
    let query = "SELECT id FROM mailroom.issued_tokens WHERE consumed_id = $1";
    let found = application.client.query(query, &[&id]).await?;
    assert_eq!(found.iter().map(|row| row.get(0)).collect::<Vec<i64>>(), [1234]);
    let plan = application
        .client
        .query(&format!("EXPLAIN {}", query.replace("$1", "'\\x00'")), &[])
        .await?;
    let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    assert!(plan[0].contains("Index Scan using issued_tokens_consumed_id_key"), "{plan:?}");
    Ok(())
}

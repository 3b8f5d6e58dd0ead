//! The migrations' files make the same schema whoever executes them, and their ways down lead back.

use std::collections::BTreeSet;
use std::fs;

use anyhow::Result;
use mailroom::migrate::{HistoryTable, MIGRATIONS, Migration, Plan};
use mailroom_connect::Schema;
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::postgres::Database;
use mailroom_tests::tools;
use tokio_postgres::Client;

use super::{clean, count, down, recorded, succeed, up};

/// All that the schemas consist of, bookkeeping apart: columns, types, defaults, constraints,
/// indexes, triggers, functions, comments, owners and rights, one line each;
/// and the actions that there are.
pub(super) async fn description(client: &Client) -> Result<Vec<String>> {
    let mut rows = client.query(include_str!("description.sql"), &[]).await?;
    if count(client, "pg_class WHERE oid = to_regclass('mailroom.actions')").await? == 1 {
        rows.extend(
            client.query("SELECT actions::text FROM mailroom.actions ORDER BY number", &[]).await?,
        );
    }
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Also the one that is taken only on request.
fn all_steps() -> &'static [Migration] {
    Plan::dropping_secrets(HistoryTable::default(), Schema::default()).migrations
}

/// Executes a file as psql and golang-migrate do.
async fn execute_file(client: &Client, name: &str) -> Result<()> {
    let script = fs::read_to_string(tools::workspace().join("migrations").join(name))?;
    Ok(client.batch_execute(&script).await?)
}

#[tokio::test]
async fn the_description_of_a_schema_tells_all_sorts_of_differences() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let before = description(&client).await?;
    for change in [
        "ALTER TABLE jobs ALTER COLUMN last_seq TYPE numeric",
        "ALTER TABLE tokens ALTER COLUMN code DROP DEFAULT",
        "ALTER TABLE accounts ALTER COLUMN created_at DROP NOT NULL",
        "ALTER TABLE tokens DROP CONSTRAINT tokens_code_five_digits",
        "ALTER TABLE tokens ALTER CONSTRAINT tokens_account_fkey NOT DEFERRABLE",
        "ALTER INDEX tokens_account_fkey RENAME TO other",
        "ALTER TABLE tokens DISABLE TRIGGER after_token_inserted",
        "ALTER FUNCTION mailroom.trg_after_token_consumed() RESET search_path",
        "COMMENT ON COLUMN tokens.code IS 'other'",
        "COMMENT ON INDEX tokens_account_fkey IS NULL",
        "ALTER TYPE job_type ADD VALUE 'other'",
        "GRANT SELECT ON accounts TO public",
        "ALTER SEQUENCE tokens_id_seq OWNED BY NONE",
        "ALTER TABLE mailroom.queue RESET (vacuum_truncate)",
        "ALTER FUNCTION mailroom.claim RESET enable_seqscan",
        "COMMENT ON SCHEMA mailroom IS NULL",
        "REVOKE USAGE ON SCHEMA mailroom FROM PUBLIC",
        "CREATE OR REPLACE VIEW mailroom.adopted_accounts AS SELECT id, email, login, status, \
         NULL::text AS language FROM accounts WHERE id > 0",
        "UPDATE mailroom.actions SET is_retired = true WHERE number = 6",
    ] {
        client.batch_execute(&format!("BEGIN; {change}")).await?;
        assert_ne!(description(&client).await?, before, "{change}");
        client.batch_execute("ROLLBACK").await?;
    }
    assert_eq!(description(&client).await?, before);
    Ok(())
}

#[test]
fn all_files_of_the_folder_are_embedded() -> Result<()> {
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(tools::workspace().join("migrations"))? {
        files.insert(entry?.file_name().to_string_lossy().into_owned());
    }
    files.retain(|name| name.starts_with(|first: char| first.is_ascii_digit()));
    let steps = all_steps();
    let embedded =
        steps.iter().flat_map(|step| ["up", "down"].map(|way| format!("{step}.{way}.sql")));
    assert_eq!(files, embedded.collect());
    assert!(steps.iter().zip(0..).all(|(step, version)| step.version == version));
    Ok(())
}

/// `mailroom` takes the brackets away, and drops what an interrupted CREATE INDEX
/// CONCURRENTLY has left.
#[test]
fn psql_and_golang_migrate_can_execute_every_file() {
    for (step, file) in all_steps().iter().flat_map(|step| [(step, step.up), (step, step.down)]) {
        let count = |line| file.lines().filter(|other| *other == line).count();
        let keeps_the_rules = if file.starts_with("-- no-transaction\n") {
            let [indexes, guarded] = ["INDEX CONCURRENTLY ", "INDEX CONCURRENTLY IF "];
            let is_guarded = file.matches(indexes).count() == file.matches(guarded).count();
            is_guarded && count("BEGIN;") == 0 && !file.contains("DROP TABLE")
        } else {
            let first = file.lines().find(|line| !line.is_empty() && !line.starts_with("--"));
            let is_bracketed = first == Some("BEGIN;") && file.ends_with("\nCOMMIT;\n");
            is_bracketed && [count("BEGIN;"), count("COMMIT;")] == [1, 1]
        };
        let is_marked = |file: &str| file.starts_with("-- no-transaction\n");
        assert!(keeps_the_rules && is_marked(step.up) == is_marked(step.down), "{step}: {file}");
    }
}

#[tokio::test]
async fn plain_execution_and_the_command_make_the_same_schema() -> Result<()> {
    let by_hand = Database::create()?.load_base_schema()?;
    let by_hand = by_hand.connect().await?;
    let step_by_step = Database::create()?;
    let mut step_by_step = step_by_step.connect().await?;
    for (index, migration) in MIGRATIONS.iter().enumerate() {
        if migration.version > 0 {
            execute_file(&by_hand, &format!("{migration}.up.sql")).await?;
        }
        assert_eq!(up(&mut step_by_step, &MIGRATIONS[..=index]).await?, 1);
        assert_eq!(description(&by_hand).await?, description(&step_by_step).await?, "{migration}");
    }
    let at_once = Database::create()?;
    succeed(&at_once, &["up"])?;
    assert_eq!(description(&by_hand).await?, description(&at_once.connect().await?).await?);
    Ok(())
}

/// A description without what the way down leaves: columns of times that are 64 bits wide, a
/// constraint that is validated, and two indexes that are not built again.
pub(super) fn but_for_what_stays(lines: Vec<String>) -> Vec<String> {
    const GONE: [&str; 2] = ["tokens_id_expires_consumed_action_idx", "accounts_id_status_idx"];
    const WIDENED: [&str; 3] =
        ["column public.accounts.", "column public.tokens.", "column mailroom.adopted_tokens."];
    let is_kept = |line: &String| GONE.iter().all(|name| !line.contains(name));
    let without = |line: String| {
        if WIDENED.iter().any(|start| line.starts_with(start)) {
            line.replacen(" integer ", " bigint ", 1)
        } else if line.starts_with("constraint public.tokens.tokens_code_five_digits") {
            line.replacen(" NOT VALID f ", " t ", 1)
        } else {
            line
        }
    };
    lines.into_iter().filter(is_kept).map(without).collect()
}

#[tokio::test]
async fn each_way_down_restores_the_former_schema_and_each_way_up_the_newer() -> Result<()> {
    let database = Database::create()?;
    let mut client = database.connect().await?;
    client.batch_execute("CREATE EXTENSION pgcrypto").await?;
    let mut schemas = vec![description(&client).await?];
    for index in 0..MIGRATIONS.len() {
        up(&mut client, &MIGRATIONS[..=index]).await?;
        schemas.push(description(&client).await?);
    }
    let newest = schemas.last().cloned();
    let schemas: Vec<_> = schemas.into_iter().map(but_for_what_stays).collect();
    for index in (0..MIGRATIONS.len()).rev() {
        let migration = MIGRATIONS[index];
        down(&mut client, MIGRATIONS).await?;
        assert_eq!(
            but_for_what_stays(description(&client).await?),
            schemas[index],
            "{migration}.down"
        );
        assert_eq!(
            recorded(&client).await?,
            index.checked_sub(1).map(|index| clean(i64::try_from(index).expect("there are few")))
        );
        up(&mut client, &MIGRATIONS[..=index]).await?;
        assert_eq!(
            but_for_what_stays(description(&client).await?),
            schemas[index + 1],
            "{migration}.up"
        );
        down(&mut client, MIGRATIONS).await?;
    }
    assert_eq!(up(&mut client, MIGRATIONS).await?, MIGRATIONS.len());
    assert_eq!(Some(description(&client).await?), newest);
    Ok(())
}

#[tokio::test]
async fn rows_survive_the_way_down_to_the_base_schema_and_up_again() -> Result<()> {
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    client.accounts(numbered("", 1..=100)).at("b.test").insert().await?;
    client
        .batch_execute(
            "UPDATE tokens SET consumed_at = extract(epoch FROM now()) WHERE account % 2 = 0;
            UPDATE accounts SET status = 'suspended' WHERE id % 3 = 0;
            INSERT INTO tokens (account, action, code) SELECT id, 'password_recovery', '00007'
                FROM accounts;
            UPDATE jobs SET last_seq = 42",
        )
        .await?;
    let rows = async |client: &Client| -> Result<Vec<String>> {
        // The columns of the base schema.
        let query = "SELECT to_jsonb(accounts)::text FROM accounts
            UNION ALL SELECT (to_jsonb(tokens))::text FROM tokens
            ORDER BY 1";
        Ok(client.query(query, &[]).await?.iter().map(|row| row.get(0)).collect())
    };
    let before = rows(&client).await?;
    assert_eq!(before.len(), 300);
    for _ in 1..MIGRATIONS.len() {
        down(&mut client, MIGRATIONS).await?;
    }
    assert_eq!(recorded(&client).await?, Some(clean(0)));
    assert_eq!(rows(&client).await?, before);
    up(&mut client, MIGRATIONS).await?;
    assert_eq!(rows(&client).await?, before);
    Ok(())
}

#[tokio::test]
async fn another_schema_of_the_search_path_is_migrated_all_the_same() -> Result<()> {
    let database = Database::create()?;
    let client = database.connect().await?;
    client
        .batch_execute(&format!(
            "CREATE EXTENSION pgcrypto SCHEMA public; CREATE SCHEMA \"Mail Room\"; CREATE TABLE
            public.accounts ();
            ALTER DATABASE {} SET search_path = \"Mail Room\", public",
            database.name()
        ))
        .await?;
    let database = database.migrate_with(&["--with-accounts"])?;
    assert_eq!(count(&client, "\"Mail Room\".schema_migrations").await?, 1);

    client
        .batch_execute(
            "SET search_path = pg_catalog;
            INSERT INTO \"Mail Room\".accounts (email, login) VALUES ('a', 'a');
            UPDATE \"Mail Room\".tokens SET consumed_at = 1",
        )
        .await?;
    let active =
        client.query("SELECT FROM \"Mail Room\".accounts WHERE status = 'active'", &[]).await?;
    assert_eq!(active.len(), 1);

    let mut client = database.connect().await?;
    for _ in MIGRATIONS {
        down(&mut client, MIGRATIONS).await?;
    }
    assert_eq!(count(&client, "public.accounts").await?, 0, "a table of somebody else is gone");
    let left = "SELECT FROM pg_class WHERE relnamespace = '\"Mail Room\"'::regnamespace
        AND relname <> 'schema_migrations'
        AND relkind = 'r'";
    assert!(client.query(left, &[]).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn every_column_and_index_says_what_it_is_for() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let query = "SELECT attrelid::regclass || '.' || attname AS name, col_description(attrelid,
        attnum), atttypid::regtype::text
        FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid AND relkind = 'r'
        WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace IN
            ('public'::regnamespace, 'mailroom'::regnamespace)
                AND relname <> 'schema_migrations') AND attnum > 0
            AND NOT attisdropped AND attname <> 'id'
        UNION ALL
        SELECT indexrelid::regclass::text,
            coalesce(obj_description(indexrelid, 'pg_class'), obj_description(pg_constraint.oid,
                'pg_constraint')), ''
        FROM pg_index LEFT JOIN pg_constraint ON conindid = indexrelid AND contype = 'u'
        WHERE indrelid IN (SELECT oid FROM pg_class WHERE relnamespace IN
            ('public'::regnamespace, 'mailroom'::regnamespace)
                AND relname <> 'schema_migrations') AND NOT indisprimary";
    let rows = client.query(query, &[]).await?;
    assert!(rows.len() > 80);
    for row in rows {
        let (name, comment, type_name): (String, Option<String>, String) =
            (row.get(0), row.get(1), row.get(2));
        let comment = comment.unwrap_or_default();
        assert!(!comment.is_empty(), "{name} says nothing");
        if name.ends_with("_at") && type_name == "bigint" {
            assert!(
                comment.to_lowercase().contains("seconds since the unix epoch"),
                "{name}: {comment}"
            );
        }
    }
    Ok(())
}

//! The collector changes its key under load; a verifier that has all keys verifies every token.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::{self, Collector, Item};
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use mailroom_tests::rows::{cursor, register};
use rustix::process::Signal;
use tokio::sync::watch;

const ACCOUNTS: i32 = 6_000;
const AT_ONCE: i32 = 50;
/// How many tokens the reader has when the key changes for the first time, the second time, …
const CHANGES: [usize; 3] = [1_000, 2_500, 4_000];
/// How many more accounts register meanwhile; the rest waits for the change, so that each key has
/// something to sign.
const AHEAD: usize = 1_000;

fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}

/// A new key that signs `format`, and the text of the one that verifies what it signed.
fn new_key(format: &str) -> Result<[String; 2]> {
    let signing = output(program::mailroom()?.args(["keygen", "--token-format", format]))?;
    let verifying = match format {
        "v3" => output(
            program::mailroom()?.args(["keygen", "--public"]).env("MAILROOM_SIGNING_KEY", &signing),
        )?,
        _ => signing.clone(),
    };
    Ok([signing, verifying])
}

/// How many of the tokens `mailroom verify` accepts with these keys.
fn accepted(tokens: &[&str], keys: &[&str], folder: &Path) -> Result<usize> {
    let file = folder.join("verifier.keys");
    fs::write(&file, keys.join("\n"))?;
    let mut command = program::mailroom()?;
    command.args(["verify", "--action", "activate", "-"]).env("MAILROOM_KEY_FILE", &file);
    let mut verifier = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = verifier.stdin.take().context("standard input is a pipe")?;
    let lines = tokens.join("\n");
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let verdicts = String::from_utf8(verifier.wait_with_output()?.stdout)?;
    writer.join().ok().context("the writer panicked")??;
    ensure!(verdicts.lines().count() == tokens.len(), "one verdict a token");
    Ok(verdicts.lines().filter(|verdict| *verdict == "valid").count())
}

/// Reads all tokens; each time that enough have come, the collector gets a new first key and keeps
/// the one before.
fn change_keys(
    collector: &mut Collector,
    keys: &[[String; 2]],
    file: &Path,
    changed: &watch::Sender<usize>,
) -> Result<Vec<Item>> {
    let lines = collector.lines()?;
    let mut items = Vec::new();
    for (change, (count, pair)) in CHANGES.into_iter().zip(keys.windows(2)).enumerate() {
        items.extend(lines.next_items(count - items.len())?);
        fs::write(file, format!("# change {change}\n{}\n{}\n", pair[1][0], pair[0][0]))?;
        collector.signal(Signal::HUP)?;
        collector.wait_for_log("the first one signs from now on count=2", change + 1)?;
        changed.send_replace(change + 1);
    }
    let expected = usize::try_from(ACCOUNTS)?;
    items.extend(lines.next_items(expected - items.len())?);
    Ok(items)
}

async fn no_token_is_lost_while_keys_change(format: &str) -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("keys");
    let keys: Vec<_> = (0..=CHANGES.len()).map(|_| new_key(format)).collect::<Result<_>>()?;
    fs::write(&file, format!("{}\n", keys[0][0]))?;

    let mut command = collector::on_base_schema(database.url())?;
    command.args(["--batch-timeout", "100", "--batch-limit", "20", "--token-format", format]);
    command.env_remove("MAILROOM_SECRET_KEY").env("MAILROOM_KEY_FILE", &file);
    let mut collector = Collector::start(&mut command)?;
    let changing = keys.clone();
    let (sender, mut changed) = watch::channel(0);
    let reading = tokio::task::spawn_blocking(move || {
        let items = change_keys(&mut collector, &changing, &file, &sender)?;
        collector.stop()?;
        anyhow::Ok(items)
    });
    for first in (1..=ACCOUNTS).step_by(AT_ONCE.try_into()?) {
        let last = first + AT_ONCE - 1;
        let due = usize::try_from(last)?;
        let may_register =
            |changes: &usize| CHANGES.get(*changes).is_none_or(|change| due <= change + AHEAD);
        if changed.wait_for(may_register).await.is_err() {
            // The reader has failed, and says why below.
            break;
        }
        register(&client, first..=last).await?;
    }
    let items = reading.await??;

    let mut logins: Vec<_> = items.iter().map(|item| item.login.clone()).collect();
    logins.sort();
    let mut expected = mailroom_tests::rows::logins(1..=ACCOUNTS);
    expected.sort();
    assert!(logins == expected, "every account has one token, and none has two");
    assert_eq!(cursor(&client).await?, i64::from(ACCOUNTS));

    let tokens: Vec<_> = items.iter().map(|item| item.token.as_str()).collect();
    let verifying: Vec<_> = keys.iter().map(|[_, verifying]| verifying.as_str()).collect();
    assert_eq!(accepted(&tokens, &verifying, folder.path())?, tokens.len(), "with all keys");
    let mut alone = Vec::new();
    for key in &verifying {
        alone.push(accepted(&tokens, &[key], folder.path())?);
    }
    assert_eq!(
        alone.iter().sum::<usize>(),
        tokens.len(),
        "each token is signed with one key: {alone:?}"
    );
    assert!(alone.iter().all(|count| *count > 0), "each key signed some: {alone:?}");
    Ok(())
}

#[tokio::test]
async fn no_v1_token_is_lost_while_keys_change() -> Result<()> {
    no_token_is_lost_while_keys_change("v1").await
}

#[tokio::test]
async fn no_v2_token_is_lost_while_keys_change() -> Result<()> {
    no_token_is_lost_while_keys_change("v2").await
}

#[tokio::test]
async fn no_v3_token_is_lost_while_keys_change() -> Result<()> {
    no_token_is_lost_while_keys_change("v3").await
}

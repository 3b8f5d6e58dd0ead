//! A dump of the database holds no secret and no code of a mail that was sent.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mailroom::queue::{Queue, Token};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::hex::hexadecimal;
use mailroom_tests::postgres::{Database, Wanted};
use mailroom_verifier_core::Version;

use super::{claim, clock, count, give_up, product, queue, send};

/// All that `pg_dump` writes of a database, but for tables whose names match a pattern.
fn dump(database: &Database, excluded: Option<&str>) -> Result<String> {
    let installation = Wanted::from_environment()?.find()?;
    let mut command = Command::new(installation.programs.join("pg_dump"));
    command.arg("--dbname").arg(database.url());
    if let Some(pattern) = excluded {
        command.arg("--exclude-table-data").arg(pattern);
    }
    let output = command.output().context("pg_dump does not start")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.to_lowercase())
}

/// Whether a secret is in a dump, in any of the forms in which PostgreSQL writes bytes.
fn has_secret(dump: &str, token: &Token) -> bool {
    dump.contains(&hexadecimal(&token.secret))
}

/// Whether a column of a dump is a code, or a list in one has it.
fn has_code(dump: &str, token: &Token) -> bool {
    let Some(code) = token.code.as_ref().map(|code| String::from_utf8_lossy(code)) else {
        return false;
    };
    dump.split(['\t', '\n', '{', '}', ',']).any(|field| field == code)
}

const ALL: [&str; 6] = ["activate", "recover", "change_email", "invite", "sign_in", "notice"];

#[tokio::test]
async fn a_dump_holds_exactly_the_secrets_that_wait() -> Result<()> {
    let (database, client) = product().await?;
    let mut collector = queue(&database, Version::V2).await?;
    let mut sent = Vec::new();
    for _ in 0..5 {
        for action in ALL {
            client.mail(action).subject("7").payload(format!("\"{action}\"")).enqueue().await?;
        }
    }
    sent.extend(send(&mut collector).await?);
    assert_eq!(sent.len(), 30);
    let dumped = dump(&database, None)?;
    assert!(dumped.contains("ada@example.test"));
    assert!(!sent.iter().any(|token| has_secret(&dumped, token) || has_code(&dumped, token)));
    assert_eq!(count(&client, "mailroom.payloads").await?, 0);

    // In the middle: two wait, two are claimed.
    for _ in 0..2 {
        client.mail("sign_in").enqueue().await?;
    }
    let leased = claim(&mut collector).await?.context("two are due")?.tokens;
    for _ in 0..2 {
        client.mail("sign_in").enqueue().await?;
    }
    let dumped = dump(&database, None)?;
    assert!(leased.iter().all(|token| has_secret(&dumped, token) && has_code(&dumped, token)));
    assert!(!sent.iter().any(|token| has_secret(&dumped, token)));
    let secrets = "(SELECT secret FROM mailroom.queue UNION ALL SELECT unnest(secrets) \
                   FROM mailroom.leases) AS waiting";
    assert_eq!(count(&client, secrets).await?, 4);
    Ok(())
}

#[tokio::test]
async fn what_is_cancelled_used_or_expired_leaves_no_secret() -> Result<()> {
    let (database, client) = product().await?;
    clock::stop(&client).await?;
    let mut collector = queue(&database, Version::V2).await?;
    let mut gone = Vec::new();
    for _ in 0..4 {
        client.mail("sign_in").subject("7").payload("\"hidden\"").enqueue().await?;
    }
    gone.extend(give_up(&mut collector).await?);
    let dumped = dump(&database, None)?;
    assert!(gone.iter().all(|token| has_secret(&dumped, token)));

    let code = String::from_utf8(gone[0].code.clone().context("it has one")?)?;
    assert_eq!(super::redeem(&client, &gone[0], "sign_in", Some(&code)).await?, "ok");
    assert_eq!(
        count(&client, "mailroom.dead_letters WHERE secret IS NOT NULL OR code IS NOT NULL")
            .await?,
        0
    );

    client.mail("sign_in").subject("7").payload("\"hidden\"").enqueue().await?;
    client.mail("sign_in").subject("8").payload("\"hidden\"").enqueue().await?;
    gone.extend(give_up(&mut collector).await?);
    client.batch_execute("SELECT mailroom.cancel_subject('7')").await?;
    assert_eq!(count(&client, "mailroom.dead_letters WHERE secret IS NOT NULL").await?, 1);
    clock::forward(&client, Duration::from_secs(16 * 60)).await?;
    // A collector sweeps when it comes.
    queue(&database, Version::V2).await?.settle_and_claim(Vec::new(), None).await?;
    let dumped = dump(&database, None)?;
    assert!(!gone.iter().any(|token| has_secret(&dumped, token) || has_code(&dumped, token)));
    assert!(!dumped.contains("hidden"));
    Ok(())
}

#[tokio::test]
async fn with_accounts_the_table_that_their_application_redeems_by_is_the_only_one() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.accounts(["ada", "eve"]).insert().await?;
    client.account("bob").active().insert().await?;
    client.batch_execute("SELECT mailroom.request('bob', 'recover')").await?;
    let sent = send(&mut queue(&database, Version::V2).await?).await?;
    assert_eq!(sent.len(), 3);
    let dumped = dump(&database, Some("public.tokens"))?;
    assert!(dumped.contains("ada@example.test"));
    assert!(!sent.iter().any(|token| has_secret(&dumped, token) || has_code(&dumped, token)));
    let dumped = dump(&database, None)?;
    assert!(sent.iter().all(|token| has_secret(&dumped, token)));

    let database = database.migrate_with(&["--drop-secrets"])?;
    let dumped = dump(&database, None)?;
    assert!(!sent.iter().any(|token| has_secret(&dumped, token) || has_code(&dumped, token)));
    Ok(())
}

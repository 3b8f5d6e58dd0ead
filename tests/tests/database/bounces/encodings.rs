use std::process::Output;

use anyhow::{Result, ensure};
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::program;
use mailroom_tests::rows::{WITHOUT_VERDICT, wait_for};
use mailroom_tests::sending::Configuration;

use super::{Bounces, bounced, suppressed};
use crate::encodings::Encoded;

fn mailroom(url: &str, arguments: &[&str]) -> Result<Output> {
    Ok(program::mailroom()?.args(arguments).env("MAILROOM_DATABASE_URL", url).output()?)
}

#[tokio::test]
async fn addresses_beyond_ascii_are_sent_to_and_suppressed_in_a_database_of_single_bytes()
-> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let database = Encoded::empty("LATIN1").await?;
    let (client, url) = (&database.client, &database.url);
    let migrated = mailroom(url, &["migrate", "up"])?;
    ensure!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
    let accounts = client
        .accounts(["äda", "bob", "jörg"])
        .emails(["ada@bücher.test", "bob@xn--bcher-kva.test", "jörg@x.test"])
        .insert()
        .await?;

    let configuration = Configuration::smtp(server.port, "")?;
    let mut command = collector::command(url)?;
    let program = program::path()?;
    let sender = format!("'{program}' send --config '{}'", configuration.file().display());
    let collector = Collector::start(command.args(["--batch-timeout", "0", "--sender", &sender]))?;
    wait_for(client, WITHOUT_VERDICT, 0_i64).await?;

    let bounces = Bounces::listen(url)?;
    // No row of this database can have the form of the second in Unicode.
    for address in ["ada@xn--bcher-kva.test", "eve@xn--hxajbheg2az3al.test"] {
        let answer = bounces.resend(&bounced("Permanent", &format!("{address:?}")))?;
        ensure!(answer.0 == 200, "{answer:?}\n{}", bounces.program.log());
    }
    let addresses: Vec<_> =
        suppressed(client).await?.into_iter().map(|[address, ..]| address).collect();
    assert_eq!(addresses, ["ada@xn--bcher-kva.test", "eve@xn--hxajbheg2az3al.test"]);
    let by_hand = mailroom(url, &["suppress", "add", "eve@παράδειγμα.test"])?;
    let said = String::from_utf8(by_hand.stderr)?;
    ensure!(
        by_hand.status.code() == Some(1) && said.contains("LATIN1"),
        "{:?} {said}",
        by_hand.status
    );

    client.token().insert_for_each(&accounts).await?;
    wait_for(client, WITHOUT_VERDICT, 0_i64).await?;
    let log = collector.stop()?;
    let query = "SELECT login || ' ' || state::text || coalesce(': ' || reason, '')
        FROM mailroom.deliveries
        JOIN tokens ON tokens.id = token JOIN accounts ON accounts.id = account ORDER BY token";
    let states: Vec<String> =
        client.query(query, &[]).await?.iter().map(|row| row.get(0)).collect();
    let expected = [
        "äda sent",
        "bob sent",
        "jörg dead: its address is not ASCII, which the server does not take",
        "äda dead: its address is suppressed (bounce)",
        "bob sent",
        "jörg dead: its address is not ASCII, which the server does not take",
    ];
    ensure!(states == expected, "{states:#?}\n{log}");
    let mails: Vec<_> = server.mails().into_iter().map(|mail| mail.to).collect();
    assert_eq!(
        mails,
        ["ada@xn--bcher-kva.test", "bob@xn--bcher-kva.test", "bob@xn--bcher-kva.test"]
    );
    bounces.program.stop()?;
    database.drop().await
}

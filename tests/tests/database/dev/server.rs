//! The PostgreSQL that `mailroom dev` starts where it is given none.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use anyhow::{Context, Result};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::{Cluster, Wanted};
use tokio_postgres::NoTls;

use super::{Dev, wait_until_gone};

#[tokio::test]
async fn from_nothing_there_is_a_database_and_a_key_and_nothing_is_left_of_the_database()
-> Result<()> {
    let installation = Wanted::from_environment()?.find()?;
    let others = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect::<Vec<_>>();
    let path = env::join_paths([installation.programs].into_iter().chain(others))?;
    let path = path.to_str().context("the path is UTF-8")?;
    let dev = Dev::start_with(&[("PATH", path)], &[])?;

    let files = dev.files();
    let mut secrets = Vec::new();
    for name in ["env", "key"] {
        let mode = fs::metadata(files.join(name))?.permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let environment = fs::read_to_string(files.join("env"))?;
    let value = |name: &str| {
        let mut lines = environment.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).context(name.to_owned())
    };
    let url = value("MAILROOM_DATABASE_URL")?;
    secrets.push(value("MAILROOM_SECRET_KEY")?.to_owned());
    let password = url.split([':', '@']).nth(2).context("a password")?;
    secrets.push(password.to_owned());

    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    client.mail("activate").to("a@example.test").subject("7").enqueue().await?;
    dev.mail("a@example.test")?;
    let wrong = url.replacen(password, "guessed", 1);
    assert!(tokio_postgres::connect(&wrong, NoTls).await.is_err(), "no password is asked for");
    let row = client.query_one("SELECT current_setting('data_directory')", &[]).await?;
    let data = PathBuf::from(row.get::<_, String>(0));
    drop(client);

    let said = dev.said.clone();
    // Killed: it cannot clean up itself.
    let Dev { program, folder, .. } = dev;
    let log = program.kill()?;
    for secret in &secrets {
        assert!(!log.contains(secret) && !said.contains(secret), "{log}{said}");
    }
    wait_until_gone(data.parent().context("a folder")?)?;

    assert_eq!(value("DATABASE_URL")?, url, "for the application's own client");

    // A shell that has read the variables starts it again.
    let former = [
        ("PATH", path),
        ("MAILROOM_DATABASE_URL", url),
        ("DATABASE_URL", url),
        ("MAILROOM_SECRET_KEY", value("MAILROOM_SECRET_KEY")?),
    ];
    let dev = Dev::start_in(folder, &former, &[])?;
    let renewed = fs::read_to_string(dev.files().join("env"))?;
    assert!(renewed.contains(&secrets[0]), "the application still needs the key");
    assert!(!renewed.contains(&secrets[1]) && renewed.contains("MAILROOM_DATABASE_URL="));
    assert!(renewed.contains("\nDATABASE_URL="), "{renewed}");
    Ok(())
}

#[tokio::test]
async fn an_application_gets_the_url_of_the_database_that_was_named() -> Result<()> {
    let cluster = Cluster::builder().start()?;
    let whole = cluster.url("postgres");
    let port = cluster.port().to_string();
    let by_variables = [
        ("MAILROOM_DATABASE_URL", "postgresql:///postgres"),
        ("PGHOST", cluster.socket_dir().to_str().context("the path is UTF-8")?),
        ("PGPORT", port.as_str()),
        ("PGUSER", "postgres"),
    ];
    for variables in [&[("MAILROOM_DATABASE_URL", whole.as_str())][..], &by_variables] {
        let dev = Dev::start_with(variables, &[])?;
        let url = url_for_application(&dev)?.context("a URL")?;
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
        tokio::spawn(connection);
        let row = client.query_one("SELECT current_database()", &[]).await?;
        assert_eq!(row.get::<_, &str>(0), "postgres");
        assert!(dev.said.contains("cp .mailroom/env .env.local"), "{}", dev.said);

        // A shell that has read it, and one that has another.
        let Dev { program, folder, .. } = dev;
        program.stop()?;
        let dev = Dev::start_in(folder, &[variables, &[("DATABASE_URL", &url)]].concat(), &[])?;
        assert_eq!(url_for_application(&dev)?.as_ref(), Some(&url));
        let Dev { program, folder, .. } = dev;
        program.stop()?;
        let own = [variables, &[("DATABASE_URL", "postgresql://other/own")]].concat();
        let dev = Dev::start_in(folder, &own, &[])?;
        assert_eq!(url_for_application(&dev)?, None);
        dev.program.stop()?;
    }
    Ok(())
}

/// What the file of variables has of it.
fn url_for_application(dev: &Dev) -> Result<Option<String>> {
    let text = fs::read_to_string(dev.files().join("env"))?;
    let url = text.lines().find_map(|line| line.strip_prefix("DATABASE_URL="));
    Ok(url.map(|url| url.trim_matches('\'').to_owned()))
}

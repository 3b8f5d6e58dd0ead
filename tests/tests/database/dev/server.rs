//! The PostgreSQL that `mailroom dev` starts where it is given none.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use anyhow::{Context, Result};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Wanted;
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

    // A shell that has read the variables starts it again.
    let former = [
        ("PATH", path),
        ("MAILROOM_DATABASE_URL", url),
        ("MAILROOM_SECRET_KEY", value("MAILROOM_SECRET_KEY")?),
    ];
    let dev = Dev::start_in(folder, &former, &[])?;
    let renewed = fs::read_to_string(dev.files().join("env"))?;
    assert!(renewed.contains(&secrets[0]), "the application still needs the key");
    assert!(!renewed.contains(&secrets[1]) && renewed.contains("MAILROOM_DATABASE_URL="));
    Ok(())
}

//! The roles of docs/DATABASE.md: each part connects as who needs no more than it does.

use std::env;

use anyhow::{Context, Result};
use mailroom_tests::postgres::Database;
use serde_json::{Value, json};
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, NoTls};

use crate::random_hex;

pub(crate) struct Roles {
    config: Config,
    /// Begins the names of the roles, which all databases of a server share.
    prefix: String,
    collector: String,
    application: String,
}

impl Roles {
    /// Makes the roles and gives them their rights in the migrated database.
    pub(crate) async fn create(database: &Database, client: &Client) -> Result<Self> {
        let config: Config =
            database.url().parse().context("the URL of the database has a form of no use")?;
        let prefix = database.name().to_owned();
        let roles = Self { config, prefix, collector: random_hex()?, application: random_hex()? };
        // All of it or, if a statement fails, nothing: the statements of one batch are one transaction.
        client.batch_execute(&roles.sql()).await.context("cannot make the roles of the demonstration")?;
        Ok(roles)
    }

    fn sql(&self) -> String {
        include_str!("roles.sql")
            .replace("{prefix}", &self.prefix)
            .replace("{collector_password}", &self.collector)
            .replace("{application_password}", &self.application)
    }

    /// What the stage is told of the database and of who connects to it.
    pub(crate) fn described(&self) -> Result<Value> {
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(folder)) => folder.to_string_lossy().into_owned(),
            None => "127.0.0.1".to_owned(),
        };
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        let name = self.config.get_dbname().context("the URL of the database names none")?;
        let owner = self.config.get_user().context("the URL of the database names no user")?;
        let owners_password = String::from_utf8_lossy(self.config.get_password().unwrap_or_default());
        let role = |kind: &str, password: &str| json!({ "user": format!("{}_{kind}", self.prefix), "password": password });
        Ok(json!({
            "database": { "host": host, "port": port, "name": name },
            "owner": { "user": owner, "password": owners_password },
            "collector": role("collector", &self.collector),
            "application": role("application", &self.application),
        }))
    }

    /// Takes the roles away where the server stays; the database has to be gone already.
    pub(crate) async fn drop_all(&self) -> Result<()> {
        let Ok(server) = env::var("MAILROOM_TEST_DATABASE_URL") else { return Ok(()) };
        let (client, connection) = server.parse::<Config>()?.connect(NoTls).await?;
        tokio::spawn(connection);
        let roles = ["collector", "application"].map(|kind| format!("{}_{kind}", self.prefix));
        client.batch_execute(&format!("DROP ROLE IF EXISTS {}", roles.join(", "))).await?;
        Ok(())
    }
}

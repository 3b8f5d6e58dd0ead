//! Schemas of neighbouring versions, as the policy of docs/operate/upgrade.md allows them: nothing
//! is released, so they are made of this one.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

const NEXT: &str = include_str!("next_schema.sql");
const RIGHTS: &str = include_str!("../../collector/src/rights.json");

/// Makes the schema that of the next version. Roles that could call a function can call it again.
///
/// # Errors
/// It is another one, or the database is away.
pub async fn upgrade(client: &Client) -> Result<()> {
    let rights: Value = serde_json::from_str(RIGHTS)?;
    let sets = rights.as_object().context("sets of rights")?;
    let names = |of: &str| {
        let lists = sets.values().filter_map(|set| set[of].as_array());
        lists.flatten().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let callable = [names("functions"), names("optional")].concat().join(",");
    client.execute("SELECT set_config('test.callable', $1, false)", &[&callable]).await?;
    // As `mailroom migrate up` does, which tries again after a deadlock with collectors.
    while let Err(error) = client.batch_execute(NEXT).await {
        ensure!(error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED), "{error:?}");
        client.batch_execute("ROLLBACK").await?;
    }
    // What was meant to be changed was.
    let changed = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'mailroom'::regnamespace
        AND 'further' = ANY (proargnames)
        AND proname IN ('claim', 'enqueue', 'heartbeat', 'peek', 'redeem', 'settle', 'status')";
    let changed: i64 = client.query_one(changed, &[]).await?.get(0);
    ensure!(changed == 7, "{changed} functions of 7 were changed");
    Ok(())
}

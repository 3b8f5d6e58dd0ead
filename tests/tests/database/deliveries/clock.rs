//! A clock that tests turn. Only the owner of the schema can put one in the place
//! of the queue's own.

use std::time::Duration;

use anyhow::Result;
use tokio_postgres::Client;

/// Stops the queue's clock at the present second.
pub(crate) async fn stop(client: &Client) -> Result<()> {
    client
        .batch_execute(
            "CREATE TABLE stopped_clock AS SELECT date_trunc('second', clock_timestamp()) AS moment;
            CREATE OR REPLACE FUNCTION mailroom.clock() RETURNS timestamptz LANGUAGE sql VOLATILE
                RETURN (SELECT moment FROM stopped_clock)",
        )
        .await?;
    Ok(())
}

/// Turns it forward.
pub(crate) async fn forward(client: &Client, by: Duration) -> Result<()> {
    turn(client, i64::try_from(by.as_millis())?).await
}

/// Turns it by some milliseconds.
pub(crate) async fn turn(client: &Client, milliseconds: i64) -> Result<()> {
    let update = "UPDATE stopped_clock SET moment = moment + interval '1 millisecond' * $1::bigint";
    client.execute(update, &[&milliseconds]).await?;
    Ok(())
}

/// What it shows, in seconds since the Unix epoch.
pub(crate) async fn now(client: &Client) -> Result<i64> {
    let query = "SELECT floor(extract(epoch FROM moment))::bigint FROM stopped_clock";
    Ok(client.query_one(query, &[]).await?.get(0))
}

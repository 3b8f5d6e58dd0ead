//! The web demonstration: PostgreSQL and its roles here, every other part started and watched by `web-demo/stage`.

mod folders;
mod roles;
mod stage;

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};
use mailroom_tests::postgres::Database;

use self::folders::Folders;
use self::roles::Roles;
use self::stage::Stage;
use crate::stop::Stop;

/// Runs until a signal comes, and returns whether all parts ran until then.
pub(crate) async fn run(stop: &mut Stop) -> Result<bool> {
    println!("  starting a throwaway PostgreSQL ...");
    let database = Database::create()?.migrate()?;
    let client = database.connect().await?;
    let roles = Roles::create(&database, &client).await?;
    drop(client);
    let ran = on_stage(&roles, stop).await;
    drop(database);
    // However it went: the server may be one that stays, and its roles are those of all its databases.
    let dropped = roles.drop_all().await;
    let well = ran?;
    dropped?;
    Ok(well)
}

async fn on_stage(roles: &Roles, stop: &mut Stop) -> Result<bool> {
    println!("  starting the collector, the inbox, the origin and the edge ...");
    let folders = Folders::create()?;
    let mut stage = Stage::start(&folders, roles).await?;
    let ended: Option<bool> = tokio::select! {
        () = stop.asked() => None,
        ended = stage.wait() => Some(ended?),
    };
    if ended.is_some() {
        eprintln!("error: the demonstration ended by itself");
        return Ok(false);
    }
    println!("\n  ending every part ...");
    tokio::select! {
        // Whatever the stage has started ends with it.
        () = stop.asked() => Ok(false),
        ended = stage.end() => ended,
    }
}

/// A path that `cargo xtask demo` passes on.
fn path(variable: &str) -> Result<PathBuf> {
    let value = env::var_os(variable);
    value
        .map(PathBuf::from)
        .with_context(|| format!("{variable} is not set: start this by `cargo xtask demo`"))
}
